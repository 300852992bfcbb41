// A folder of a test's own, in which the program runs as a script runs it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace plumbline {

/// A configuration that runs in a moment, but for its steps.
constexpr const char* kSmallRun =
    "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
    "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,\n"
    "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
    "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\n";

class ProgramFolder : public testing::Test, protected test::TemporaryFolder {
 protected:
  struct Said {
    int exit_code = -1;  // 1000 + signal when one ended it
    std::string out, err;
  };

  ProgramFolder();

  /// Settings of the shell for every command: HOME lies in the folder, where no calibrated profile is found,
  /// temporary files in its tmp.
  std::string environment() const;
  /// Output of `plumbline ARGUMENTS`; standard output and error stay in out.txt and err.txt unless the
  /// arguments send them elsewhere. `before`: a line of shell in front of it, ended by a semicolon.
  Said plumbline(const std::string& arguments, const std::string& before = "") const;
  /// Its standard output, of a command that succeeds.
  nlohmann::json json_of(const std::string& arguments) const;
};

}  // namespace plumbline
