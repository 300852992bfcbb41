// A layer's operators in F, B, I and W.
#pragma once

#include <cstdint>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline::passes {

/// Bytes of an element of the stream.
double e(const StageShape& s);
void norm_forward(const StageShape& s, CallList& list);
void norm_backward(const StageShape& s, CallList& list);
void bias_backward(const StageShape& s, CallList& list, bool has, std::int64_t elements);

/// When a group of layers is recomputed, its last layer stops at the activation output, but where the MLP's
/// result is normed.
enum class Forward { first, again, again_to_activation };
void layer_forward(const StageShape& s, CallList& list, std::int64_t window, Forward forward);

/// FP8 weights of one layer, once they are gathered. `like`: the stage as if all its layers were like it.
void quantize_gathered(const StageShape& like, CallList& list);

/// Gradients that an action computes. `lowest`: of the model's first layer where adapters alone train, whose
/// input has none.
struct Passes {
  bool input = true;
  bool weight = true;
  bool lowest = false;
};
void layer_backward(const StageShape& s, CallList& list, std::int64_t window, Passes passes);

}  // namespace plumbline::passes
