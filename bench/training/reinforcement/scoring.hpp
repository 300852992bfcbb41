// Scores of responses under a model: forwards without backwards.
#pragma once

#include <span>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/reinforcement/experience.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::reinforcement {

/// Log-probabilities of every response's ids under `model` or, with a scalar head, the values before them.
/// `model` has one stage on every pipeline rank. All ranks get the same; emulated: 0. Replicas take
/// micro-batches in turn. Nothing that it allocates stays. Collective over the world; `control` carries
/// values between hosts' memories.
std::vector<std::vector<float>> score(training::RankResources& model, std::span<const Response> responses,
                                      Communicator& control);

}  // namespace plumbline::reinforcement
