// Attention of a layer as a framework launches it: the kernels, or softmax between two products, and what
// turns queries and keys before it.
#pragma once

#include <cstdint>

#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {

/// True if one kernel computes the softmax of materialised scores.
bool softmax_is_fused(const StageShape& s);

/// `window`: keys that a query sees, itself included; 0: all up to itself.
void attention_forward(const StageShape& s, std::int64_t window, FrameworkCalls& calls);
void attention_backward(const StageShape& s, std::int64_t window, FrameworkCalls& calls);

/// Queries and keys: each head's norm, then the part of a head that is rotated.
void turn_queries_and_keys(const StageShape& s, FrameworkCalls& calls, bool backward);

}  // namespace plumbline
