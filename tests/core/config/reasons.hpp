// Configurations written as keys, and reasons why they are refused.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::test {

/// A configuration from keys such as "model=llama-3-8b tp=2"; the last of several of one name counts.
inline RunConfig run_with(const std::string& keys) {
  Overrides overrides;
  std::istringstream words(keys);
  for (std::string word; words >> word;) {
    const std::size_t at = word.find('=');
    overrides.push_back({word.substr(0, at), word.substr(at + 1)});
  }
  return load_run_config("", overrides);
}

/// A config.json without blanks, for a key: model=...
inline std::string llama(int hidden = 64, int ffn = 96, int heads = 4, int kv_heads = 2, int head_dim = 0,
                         int layers = 4) {
  return fmt::format(
      R"({{"model_type":"llama","hidden_size":{},"intermediate_size":{},"num_hidden_layers":{},)"
      R"("vocab_size":100,"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},)"
      R"("max_position_embeddings":32}})",
      hidden, ffn, layers, heads, kv_heads, head_dim > 0 ? head_dim : hidden / heads);
}

/// `reason`: a part of the line that is expected; "": none is.
inline void expect_reason(const std::optional<std::string>& found, const std::string& reason) {
  const std::string line = found.value_or("");
  EXPECT_THAT(line, testing::HasSubstr(reason));
  EXPECT_EQ(line.empty(), reason.empty()) << line;
  EXPECT_THAT(line, testing::Not(testing::HasSubstr("\n")));
}

using Change = void (*)(RunConfig&);
struct Refusal {
  const char* keys;
  const char* reason;       // of why_invalid
  Change change = nullptr;  // what no key says
};

/// With the keys `always` before its own.
inline RunConfig config_of(const Refusal& c, const std::string& always, Change prepare = nullptr) {
  RunConfig config = run_with(always + " " + c.keys);
  if (prepare != nullptr) prepare(config);
  if (c.change != nullptr) c.change(config);
  return config;
}

inline void expect_refusals(const std::vector<Refusal>& cases, const std::string& always,
                            Change prepare = nullptr) {
  for (const Refusal& c : cases) {
    SCOPED_TRACE(c.keys);
    expect_reason(why_invalid(config_of(c, always, prepare)), c.reason);
  }
}

}  // namespace plumbline::test
