// A file's bytes in memory, read-only, without copying them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace plumbline {

/// Returns the memory of a part of a mapped file to the system; a later access reads it again.
void forget_pages(std::span<const std::byte> mapped);

/// Move-only. A file that shrinks while mapped ends the process with SIGBUS, as with any mapping.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws InputError when the file is missing, not a regular file or cannot be mapped.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace plumbline
