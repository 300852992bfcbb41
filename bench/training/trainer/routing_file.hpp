// The file that `save_routing` names.
#pragma once

#include <string>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Writes the load of the experts in the last step as CSV, a line for every copy of the model, layer and micro-batch, in this
/// order: copy,layer,microbatch,expert 0,expert 1,… World rank 0 writes. Collective. Throws InputError when the file cannot
/// be written.
void save_routing(const RankStages& stages, Communicator& control, const std::string& path);

}  // namespace plumbline::training
