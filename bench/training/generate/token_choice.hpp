// Choice of every sequence's next token in a pass.
#pragma once

#include <span>
#include <vector>

#include "bench/training/generate/kv_cache.hpp"
#include "bench/training/generate/sampling.hpp"

namespace plumbline::generation {

/// The sequences are `rows`, prompts from `first` on; logits (sequences, v) fp32 are those of this tensor
/// rank's v columns. Greedy choices are made where the logits are; to draw, the host gets all logits. The
/// same on all ranks of the tensor group, which all call it. Emulated: takes the time, and returns choices
/// of id 0. Throws Error for logits that are not finite.
std::vector<Choice> choose_tokens(const training::TrainingContext& context, const Matrix& logits,
                                  std::span<const SequenceRows> rows, std::int64_t first,
                                  const Sampling& sampling);

}  // namespace plumbline::generation
