// The output layer and its losses.
#pragma once

#include <functional>
#include <vector>

#include "bench/training/ends/output_end.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Logits (T, v) of each of `norms` (R, h), which share the output layer. `end` outlives the tape.
std::vector<Slot> output_layer(Tape& tape, const OutputEnd& end, const std::vector<Slot>& norms);

/// Turns logits into their gradient, which may be in fp32 and then has memory of its own. `loss` does it.
void record_loss(Tape& tape, Slot logits, std::function<void(Pass&, Tensor& logits)> loss);

/// The output layer of a vocabulary that all ranks share: the norm's output goes to the shards, its gradient
/// comes from them.
void shared_output_layer(Tape& tape, const OutputEnd& end, Slot norm);

}  // namespace plumbline::training
