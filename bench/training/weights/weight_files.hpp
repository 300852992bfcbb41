// Writes gathered gradients and weights as safetensors files under Hugging Face names.
#pragma once

#include <string>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Throws InputError when what the configuration wants saved could not be written, before any work is done.
void check_outputs(const RunConfig& config);

/// One file of fp32 tensors, written by world rank 0; nothing is left behind when it fails. Collective.
void save_gradients(RankStages& stages, const std::string& file);
/// A folder with model.safetensors (fp32 master weights) and config.json, as transformers' from_pretrained
/// opens it. Collective.
void save_weights(RankStages& stages, const std::string& folder);

}  // namespace plumbline::training
