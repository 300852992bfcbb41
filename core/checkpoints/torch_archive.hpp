// Output of torch.save, in memory: a zip with a pickle of dictionaries, whose tensors' bytes are entries of
// their own.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoints/pickle.hpp"
#include "core/checkpoints/zip_archive.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline {

/// Nothing in it is executed: calls are read as data. Tensors point into the bytes, which must outlive them.
class TorchArchive {
 public:
  /// `path` names the bytes in messages. Throws InputError: no zip of torch.save (older than 1.6, say), a
  /// damaged or hostile one.
  TorchArchive(std::span<const std::byte> bytes, std::string path);

  /// Text keys of the top dictionary, in its order. Throws InputError if there is no dictionary.
  std::vector<std::string> keys() const;
  /// The tensors in the dictionary under `key`, or in the top one where it is empty; other entries are left
  /// out. Throws InputError: no such dictionary, a name given twice, a tensor whose bytes are missing, of
  /// another number than its shape has, or not row by row.
  std::map<std::string, StoredTensor> tensors(std::string_view key) const;
  /// Tensor of an archive that is one tensor and no dictionary. Throws InputError as above.
  StoredTensor only_tensor() const;
  const std::string& path() const { return path_; }

 private:
  const std::vector<std::uint32_t>& entries_of(std::uint32_t value, std::string_view what) const;
  const PickleValue* tensor_call(std::uint32_t value) const;
  StoredTensor tensor(const PickleValue& call, const std::string& name) const;
  std::vector<std::int64_t> integers(std::uint32_t value, const std::string& name) const;
  std::span<const std::byte> storage(std::uint32_t reference, StoredType& type,
                                     const std::string& name) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;

  std::string path_;
  std::map<std::string, std::span<const std::byte>, std::less<>>
      entries_;  // without the archive's own folder
  Pickle pickle_;
};

}  // namespace plumbline
