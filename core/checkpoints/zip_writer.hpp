// Zip archives of stored entries, written as a stream through minizip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plumbline {

/// Writes to an open, empty file. Every entry's bytes begin at a multiple of 64, as PyTorch's do, so that
/// they can be mapped. Throws Error naming `path` when the system does not take the bytes.
class ZipWriter {
 public:
  ZipWriter(int descriptor, std::string path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// An entry of `bytes` bytes, which follow in any number of write().
  void begin(const std::string& name, std::int64_t bytes);
  void write(std::span<const std::byte> bytes);
  void end();
  /// A whole entry.
  void add(const std::string& name, std::string_view bytes);
  /// The directory of the archive; nothing may follow.
  void finish();

 private:
  struct State;
  void check(int status, const char* what) const;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline
