// Tokens that chose every expert of a layer so far in a step, of all copies of the model
// (bench/training/mixtures.md).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace plumbline::training {

/// Load of one layer; in host memory.
struct RunningLoad {
  std::vector<double> tokens;     // by expert
  std::int64_t microbatches = 0;  // whose tokens these are, of every copy
};

/// By the layer's number in the model.
using RunningLoads = std::map<std::int64_t, RunningLoad>;

}  // namespace plumbline::training
