// How many tokens every expert had, layer by layer and micro-batch by micro-batch: what a routing is, as far as times and
// sizes depend on it.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::training {

struct ExpertLoad {
  std::int32_t copy = 0;  // of the model, or part of its tokens: Layout::sender
  std::int32_t layer = 0;
  std::int32_t microbatch = 0;
  std::vector<std::int32_t> tokens;  // by expert
};

}  // namespace plumbline::training
