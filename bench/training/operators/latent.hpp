// Queries, keys and values of multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434 §2.1), not
// absorbed. bench/training/latent.md lists what is allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// From the first norm's output: compressed, normed, and up to (T, qkv). A rank's heads of queries and keys
/// begin with the rotated elements.
Slot latent_queries_keys_values(Tape& tape, const Layer& layer, Slot norm);

}  // namespace plumbline::training
