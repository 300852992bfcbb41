// The operators and collectives of one pass of generation on a stage, call by call.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "analysis/work/operator_call.hpp"

namespace plumbline {

/// Forward of `shape.stream.seq` new tokens of every sequence, in front of which the KV cache holds
/// `past` tokens: a prefill with 0, decoding with one new token. The new keys and values are copied into
/// the cache. The last stage makes logits of each sequence's last token, and its greedy choice with the
/// log-probability. `batched`, as inference engines: one attention kernel has all sequences and writes
/// the cache, and the experts of a layer are two grouped products over those that get tokens; else each
/// sequence and expert has its own kernels.
std::vector<OperatorCall> generation_calls(const StageShape& shape, std::int64_t past, bool batched = false);

/// Number of experts that one of `tokens` tokens chooses at least, expected while each token chooses
/// `chosen` of `experts` at random: E (1 - (1 - k/E)^T).
double experts_reached(double experts, double chosen, double tokens);
/// Likewise those of a rank's experts in an MoE layer of that shape, for its tokens and those of ranks that
/// send to it.
double reached_experts(const StageShape& shape);

}  // namespace plumbline
