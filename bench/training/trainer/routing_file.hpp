// The file that `save_routing` names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Tokens of a layer's experts, over all copies of the model and micro-batches.
struct LayerLoad {
  std::int64_t layer = 0;
  std::vector<std::int64_t> tokens;   // by expert: that chose it
  std::vector<std::int64_t> dropped;  // by expert: of those
};

/// Writes the load of the experts in the last step as CSV. A line for every replica, layer and micro-batch,
/// in this order: copy,layer,microbatch,expert 0,expert 1,… World rank 0 writes. Collective. Throws
/// InputError when the file cannot be written.
void save_routing(const RankStages& stages, Communicator& control, const std::string& path);

/// Tokens that chose, and were dropped by, the experts of every layer in the last step, by layer; on all
/// ranks. Collective.
std::vector<LayerLoad> gather_layer_loads(const RankStages& stages, Communicator& control);

}  // namespace plumbline::training
