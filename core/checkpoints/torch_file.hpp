// Files of torch.save.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.hpp"
#include "core/checkpoints/torch_archive.hpp"

namespace plumbline {

/// A mapped file with a dictionary at its top.
class TorchFile {
 public:
  /// Throws InputError as TorchArchive, and if there is no dictionary.
  explicit TorchFile(const std::string& path) : file_(path), archive_(file_.bytes(), path) { keys(); }

  std::vector<std::string> keys() const { return archive_.keys(); }
  std::map<std::string, StoredTensor> tensors(std::string_view key) const { return archive_.tensors(key); }
  const std::string& path() const { return archive_.path(); }

 private:
  MappedFile file_;
  TorchArchive archive_;
};

}  // namespace plumbline
