// The operators of a stage's ends: from tokens to the stream, and from the stream to a loss.
#pragma once

#include <cstdint>

#include "analysis/work/action_parts.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/passes/layer_passes.hpp"

namespace plumbline::passes {

/// Logits of every row of the stream.
void output_product(const StageShape& s, CallList& list);
void scatter_embedded(const StageShape& s, CallList& list);
/// The logits' multiplier, of the final norm's output or of its gradient.
void multiply_logits(const StageShape& s, CallList& list);
void scale_embedded(const StageShape& s, CallList& list, std::int64_t elements);
void embedding_forward(const StageShape& s, WorkBuilder& builder);
/// Work of a first stage after its tokens' rows exist, wherever they were looked up.
void embedded_forward(const StageShape& s, WorkBuilder& builder);
void position_backward(const StageShape& s, WorkBuilder& builder);
void embedding_backward(const StageShape& s, WorkBuilder& builder);

void copy_stream(const StageShape& s, CallList& list, std::int64_t width);
/// Joint messages are taken apart and put together.
void copy_joint_input(const StageShape& s, WorkBuilder& builder);
void copy_joint_output(const StageShape& s, WorkBuilder& builder);

/// Without the output layer: a vocabulary split over all ranks, or a teacher.
void final_norm_forward(const StageShape& s, WorkBuilder& builder);
void final_norm_backward(const StageShape& s, WorkBuilder& builder);
void teacher_output(const StageShape& s, WorkBuilder& builder);
/// Modules share the output layer; behind the final norm if there are some.
void output_forward(const StageShape& s, WorkBuilder& builder);
/// Gradients of the output layer alone, or of all modules that share it.
void output_gradients(const StageShape& s, WorkBuilder& builder, Passes passes);

}  // namespace plumbline::passes
