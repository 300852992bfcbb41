// Writes files that torch.load opens, `weights_only` too, tensor by tensor and as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.hpp"
#include "core/checkpoints/zip_writer.hpp"
#include "core/files/stored_type.hpp"

namespace plumbline {

/// The tensors of one dictionary of the file.
struct TorchDictionary {
  struct Entry {
    std::string name;
    StoredType type = StoredType::fp32;
    std::vector<std::int64_t> shape;
  };
  std::string key;
  std::vector<Entry> tensors;
};

/// {"checkpoint_version": 3, "iteration": 1, key: {name: tensor, …}, …}, as Megatron's checkpoints begin.
/// The final name exists only after finish(). Throws Error when the disk does not take it, InputError when
/// the folder is not writable.
class TorchFileWriter {
 public:
  TorchFileWriter(std::string path, const std::vector<TorchDictionary>& dictionaries);
  /// Bytes of the tensors, one after the other in the order of the dictionaries, in any pieces.
  void write(std::span<const std::byte> bytes);
  /// Throws Error when tensors are missing.
  void finish();

 private:
  void begin_next();

  std::string path_;
  std::optional<PartialFile> partial_;
  std::unique_ptr<ZipWriter> zip_;
  std::vector<std::int64_t> sizes_;  // bytes of each tensor
  std::size_t next_ = 0;             // tensor that is not begun
  std::int64_t left_ = 0;            // of the one before
};

}  // namespace plumbline
