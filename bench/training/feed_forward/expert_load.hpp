// Number of tokens that chose every expert, layer by layer and micro-batch by micro-batch: the part of a
// routing that times and sizes depend on.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::training {

struct ExpertLoad {
  std::int32_t copy = 0;  // of the model, or part of its tokens: Layout::sender
  std::int32_t layer = 0;
  std::int32_t microbatch = 0;
  std::vector<std::int32_t> tokens;  // by expert: that chose it
  std::vector<std::int32_t> rows;    // likewise, after dropping and padding
};

}  // namespace plumbline::training
