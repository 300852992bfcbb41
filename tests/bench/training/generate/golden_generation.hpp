// Greedy continuations by transformers' generate (tests/golden/make_generation.py).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/files/safetensors.hpp"

namespace plumbline::golden {

struct Generation {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> ids;  // 64
  std::vector<double> log_probabilities;
};

inline TensorFile generation_file() {
  return TensorFile(std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/generation.safetensors");
}

/// Generations of a golden model such as "families/qwen3", one for each prompt.
inline std::vector<Generation> generations_of(const std::string& model) {
  const TensorFile file = generation_file();
  const StoredTensor& tokens = file.get(model + "/tokens");
  const StoredTensor& scores = file.get(model + "/log_probabilities");
  const std::int64_t fresh = scores.shape[1];
  std::vector<Generation> made(static_cast<std::size_t>(tokens.shape[0]));
  std::int64_t next = 0;  // log-probability
  for (std::size_t row = 0; row < made.size(); ++row) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(tokens.shape[1]));
    std::memcpy(all.data(), tokens.bytes.data() + row * all.size() * sizeof(all[0]),
                all.size() * sizeof(all[0]));
    std::erase(all, -1);
    const auto added = all.end() - fresh;
    made[row] = {{all.begin(), added}, {added, all.end()}, {}};
    for (std::int64_t i = 0; i < fresh; ++i) made[row].log_probabilities.push_back(scores.at(next++));
  }
  return made;
}

}  // namespace plumbline::golden
