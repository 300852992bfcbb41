// Tensor files in the safetensors format (https://github.com/huggingface/safetensors): a strict reader of one
// file or a sharded folder, and a writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/atomic_file.hpp"
#include "core/base/mapped_file.hpp"
#include "core/files/stored_tensor.hpp"

namespace plumbline {

/// All tensors of a file or of a Hugging Face folder (model.safetensors, or model.safetensors.index.json and
/// its shards), mapped, not copied. The whole header is checked before anything is handed out: header length,
/// types, shapes, offsets without overlap or hole, file length, names given once. Block scales of FP8
/// matrices belong to these and have no name of their own.
class TensorFile {
 public:
  /// Throws InputError naming the file, the tensor and the error.
  explicit TensorFile(const std::string& file_or_folder);
  TensorFile(TensorFile&&) noexcept = default;
  TensorFile& operator=(TensorFile&&) noexcept = default;
  ~TensorFile() = default;

  /// Ascending.
  std::vector<std::string> names() const;
  /// nullptr when there is none of that name. Valid as long as this object.
  const StoredTensor* find(const std::string& name) const;
  /// Throws InputError, naming the nearest tensor, when there is none.
  const StoredTensor& get(const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  void add_all(const std::string& file_or_folder);
  void add_file(const std::string& file);
  void add_shards(const std::string& folder, const std::string& index_file);

  std::string path_;
  std::vector<MappedFile> files_;
  std::map<std::string, StoredTensor> tensors_;
};

/// Writes one file, tensor by tensor. The final name exists only after finish(). A failure or a kill leaves
/// no half-written file there; the next attempt removes the partial file of a killed one.
class TensorFileWriter {
 public:
  struct Entry {
    std::string name;
    StoredType type = StoredType::fp32;
    std::vector<std::int64_t> shape;
  };
  /// Throws OutputError when the folder is not writable, InputError for a name that is given twice.
  TensorFileWriter(std::string path, std::vector<Entry> entries);
  /// Removes the written file unless finish() was reached.
  ~TensorFileWriter() = default;
  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;

  /// Puts a whole tensor, in any order. Throws Error when the name is unknown, the size differs from the
  /// entry's or the disk is full.
  void write(const std::string& name, std::span<const std::byte> bytes);
  /// The next bytes of a tensor that is written in parts. Throws as write(), for more bytes than the tensor
  /// has, too.
  void append(const std::string& name, std::span<const std::byte> bytes);
  /// Checks that every tensor was written and moves the file to its name.
  void finish();

 private:
  struct Slot {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t written = 0;
    bool whole = false;
  };
  Slot& slot(const std::string& name);
  std::string path_;
  std::optional<PartialFile> partial_;  // until finish()
  std::map<std::string, Slot> slots_;
};

}  // namespace plumbline
