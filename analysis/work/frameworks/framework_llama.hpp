// Llama as torchtitan writes it (torchtitan/models/llama3/model.py), compiled block by block or eager.
#pragma once

#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/frameworks/torchtitan_llama.hpp"

namespace plumbline {

enum class Projection : std::uint8_t { qkv, fc1 };

/// Shares of a product's parts that are computed: queries, keys, values; or gate and up.
struct PartShares {
  double first = 1, second = 1, third = 1;
};
/// The product with the weights of queries, keys and values, or of gate and up: a call for each part in
/// torchtitan's Llama, else one call with the mean of the shares.
void project(const StageShape& s, Projection of, GemmPass pass, const PartShares& shares,
             FrameworkCalls& calls);

/// Sum of the parts' input gradients. Compiled, it is part of the next kernel, unless that is a collective.
void add_input_gradients(const StageShape& s, Projection of, FrameworkCalls& calls);

/// Keys and values, copied for every query head (repeat_kv); backward the sums of their gradients.
void repeat_heads(const StageShape& s, FrameworkCalls& calls);

/// Bytes per element of the rotation of queries and keys.
double rotation_bytes(const StageShape& s);

/// Bytes per element of a layer's norm.
double norm_bytes(const StageShape& s, bool backward);

}  // namespace plumbline
