// Attention of a decoder layer, from the product that makes queries, keys and values to its result.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Queries, keys and values: `qkv`, or queries and keys in `normed`.
struct AttentionInput {
  Slot qkv, normed;
};
/// Norms of queries and keys, if the model has them, rotation, multipliers. In place but for norms.
AttentionInput prepare_queries_keys(Tape& tape, const Layer& layer, Slot qkv);

/// With cp_comm_type a2a: all heads of the rank's tokens become some of the heads of more tokens, in place.
AttentionInput exchange_heads(Tape& tape, const Layer& layer, AttentionInput input);

/// Attention's result (T, attended).
Slot core_attention(Tape& tape, const Layer& layer, AttentionInput input);

}  // namespace plumbline::training
