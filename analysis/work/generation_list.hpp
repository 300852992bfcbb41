// The operators and collectives of one pass of generation on a stage, call by call.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "analysis/work/operator_call.hpp"

namespace plumbline {

/// Forward of `shape.stream.seq` new tokens of every sequence, in front of which the KV cache holds `past`
/// tokens: a prefill with 0, decoding with one new token. The new keys and values are copied into the cache.
/// The last stage makes logits of each sequence's last token, and its greedy choice with the
/// log-probability. `batched`: one attention kernel has all sequences and writes the cache; else each has its
/// own, and copies.
std::vector<OperatorCall> generation_calls(const StageShape& shape, std::int64_t past, bool batched = false);

}  // namespace plumbline
