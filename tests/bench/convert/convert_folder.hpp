// A folder of the test's own with checkpoints made up for it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/convert/convert.hpp"

namespace plumbline::convert {

class ConvertFolder : public testing::Test {
 protected:
  ConvertFolder();
  ~ConvertFolder() override;

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;

  /// A Hugging Face folder of that name with a config.json and random bits for weights. Returns its path.
  std::string make(const std::string& name, const std::string& config,
                   StoredType type = StoredType::bf16) const;
  /// A file of torch.save with these tensors at its top.
  void write_bin(const std::string& name, const std::map<std::string, StoredTensor>& tensors) const;
  /// Writes a Megatron rank's file again with other tensors, under its first key.
  void rewrite(const std::string& name, const std::map<std::string, StoredTensor>& tensors) const;
  /// Converts quietly.
  ConvertReport convert(const std::string& from, const std::string& to, const MegatronTarget& megatron = {},
                        std::optional<CheckpointFormat> format = {}) const;
  /// Error message of the request.
  std::string complaint(const ConvertRequest& request) const;
  /// Every file below the folder and its bytes, except for descriptions of its source.
  std::vector<std::pair<std::string, std::string>> files_of(const std::string& name) const;

 private:
  std::string folder_;
};

/// A config.json of every family that Megatron-Core has, small, with that many layers.
std::vector<std::string> family_configs(int layers);
/// The one of this model_type.
std::string family_config(int layers, std::string_view model_type);
std::string llama_config(int layers);

/// Names of the tensors of `a` whose type, shape or bytes are not those of `b`, and of those that only one
/// has.
std::vector<std::string> different_tensors(const std::string& a, const std::string& b);

}  // namespace plumbline::convert
