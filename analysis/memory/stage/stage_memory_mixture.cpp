// The feed-forward part of a layer with a mixture of experts (bench/training/mixtures.md). Never in FP8, where operands would
// be quantized, and never in parallel with attention.
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// How many rows go where, and their weights; nothing where every rank has all experts.
void StageReplay::open_dispatch() {
  if (!spread()) return;
  take(kept_, bytes_.orders);
  take(kWorkspace, bytes_.repeated_weights);
  take(kWorkspace, bytes_.weights_by_rank);
  give(kWorkspace, bytes_.repeated_weights);
  take(kept_, bytes_.row_weights);
  give(kWorkspace, bytes_.weights_by_rank);
}

/// The rows of the rank's experts, in a tensor of `category` where they come from other ranks, too.
void StageReplay::rows_to_experts(Category category) {
  if (gathers()) {
    take(kWorkspace, bytes_.group_tokens);
    take(category, bytes_.own_rows);
    return give(kWorkspace, bytes_.group_tokens);
  }
  take(kWorkspace, bytes_.expert_rows);
  if (!spread()) return;
  take(kWorkspace, bytes_.own_rows);  // by rank
  replay_.exchange();
  give(kWorkspace, bytes_.expert_rows);
  take(category, bytes_.own_rows);
  give(kWorkspace, bytes_.own_rows);
}

/// The gradient of the stream, where anything but the experts reads all of it.
void StageReplay::gather_gradient() {
  if (!folds() || s_.shared > 0) gather_operand();
}
void StageReplay::release_gradient() {
  if (!folds() || s_.shared > 0) release_operand();
}

/// Over the tensor ranks too, those of the shared expert alone where experts are cut on their own.
void StageReplay::sum_of_choices(std::int64_t passing) {
  if (!folds() || s_.tensor == 1) return sum_over_tensor_ranks(passing);
  take(kWorkspace, passing);
  give(kWorkspace, passing);
  if (s_.shared == 0) return;
  take(kWorkspace, bytes_.stream);
  sum_over_tensor_ranks();
  give(kWorkspace, bytes_.stream);
}

/// What has become of them, in tensors of `rows`, is added up.
void StageReplay::rows_from_experts(Category rows) {
  if (gathers()) {
    sum_of_choices(bytes_.group_sums);
    return give(rows, bytes_.own_rows);
  }
  if (spread()) {
    take(kWorkspace, bytes_.own_rows);  // by rank
    give(rows, bytes_.own_rows);
    take(kWorkspace, bytes_.expert_rows);
    replay_.exchange();
    give(kWorkspace, bytes_.own_rows);
  }
  sum_of_choices(0);
  give(kWorkspace, bytes_.expert_rows);
}

/// Their gradients; what is left of these is choice_weights, or expert_weights where nothing is sent.
void StageReplay::weights_to_tokens() {
  if (!spread()) return;
  take(kWorkspace, bytes_.weights_by_rank);
  give(kWorkspace, bytes_.expert_weights);
  take(kWorkspace, bytes_.sent_weights);
  give(kWorkspace, bytes_.weights_by_rank);
  if (!folds()) return;
  take(kWorkspace, bytes_.own_weights);
  give(kWorkspace, bytes_.sent_weights);
  if (s_.tensor == 1) return;
  take(kWorkspace, bytes_.choice_weights);
  give(kWorkspace, bytes_.own_weights);
}

/// From the router to the activation output.
void StageReplay::mixture_forward() {
  gather_operand();
  take(kept_, bytes_.routing);
  open_dispatch();
  rows_to_experts(kept_);
  take(kept_, bytes_.fc1);
  take(kept_, bytes_.shared_weights + bytes_.shared_fc1);
  if (!spread()) give(kWorkspace, bytes_.expert_rows);
  release_operand();
  take(kept_, bytes_.activation + bytes_.shared_activation);
}

void StageReplay::mixture_output() {
  take(kWorkspace, spread() ? bytes_.own_rows : bytes_.expert_rows);
  rows_from_experts(kWorkspace);
}

/// Of a shared expert, from the gradient of its activation; `kept`: the activation is.
void StageReplay::shared_gradients(Category category, bool kept) {
  take(category, bytes_.shared_gate);
  take(kWorkspace, bytes_.shared_products);
  give(kWorkspace, bytes_.shared_products);
  if (!kept) give(kActivations, bytes_.shared_activation);
  take(category, bytes_.shared_fc1);
  give(kWorkspace, bytes_.shared_activation);
  give(kActivations, bytes_.shared_fc1 + bytes_.shared_weights);
}

void StageReplay::mixture_backward() {
  gather_gradient();
  rows_to_experts(kWorkspace);
  take(kWorkspace, bytes_.activation);  // dact
  first_gradient_of(layer_unit_);
  first_gradient_of_experts();
  take(kWorkspace, bytes_.shared_activation);
  give(kWorkspace, spread() ? bytes_.own_rows : bytes_.expert_rows);
  release_gradient();
  give(kWorkspace, bytes_.dropped);
  take(kWorkspace, bytes_.expert_weights);
  give(kActivations, bytes_.activation);
  take(kWorkspace, bytes_.fc1);  // dfc1
  give(kWorkspace, bytes_.activation);
  give(kActivations, bytes_.fc1);
  shared_gradients(kWorkspace, false);
  take(kWorkspace, bytes_.stream);  // dn
  gather_operand();
  if (!spread()) take(kWorkspace, bytes_.expert_rows);
  rows_from_experts(kActivations);
  give(kWorkspace, bytes_.fc1);
  weights_to_tokens();
  take(kWorkspace, bytes_.router_gradient);
  give(kWorkspace, bytes_.router_gradient + (spread() ? bytes_.choice_weights : bytes_.expert_weights) +
                       bytes_.shared_fc1 + bytes_.shared_gate);
  release_operand();
  give(kActivations, bytes_.routing + bytes_.orders + bytes_.row_weights + bytes_.norm_output);
}

void StageReplay::mixture_backward_input() {
  gather_gradient();
  rows_to_experts(kActivations);
  take(kWorkspace, bytes_.activation + bytes_.shared_activation);  // dact
  if (!spread()) give(kWorkspace, bytes_.expert_rows);
  release_gradient();
  take(kWorkspace, bytes_.expert_weights);
  take(kActivations, bytes_.fc1);  // dfc1
  give(kWorkspace, bytes_.activation);
  give(kActivations, bytes_.fc1);
  shared_gradients(kActivations, true);
  take(kWorkspace, bytes_.stream);  // dn
  take(kWorkspace, spread() ? bytes_.own_rows : bytes_.expert_rows);
  rows_from_experts(kWorkspace);
  weights_to_tokens();
  take(kActivations, bytes_.router_gradient);
  give(kWorkspace, spread() ? bytes_.choice_weights : bytes_.expert_weights);
  give(kActivations, bytes_.routing + bytes_.orders + bytes_.row_weights - bytes_.rows_tokens);
}

/// `dy`: where the gradient of the layer's output is.
void StageReplay::mixture_backward_weight(Category dy) {
  first_gradient_of(layer_unit_);
  first_gradient_of_experts();
  const std::int64_t rows = spread() ? 0 : bytes_.expert_rows;
  gather_gradient();
  take(kWorkspace, rows);
  give(kWorkspace, rows);
  release_gradient();
  give(kActivations, bytes_.own_rows + bytes_.activation + bytes_.shared_activation);
  give(dy, bytes_.stream);
  gather_operand();
  take(kWorkspace, rows);
  give(kWorkspace, rows);
  release_operand();
  give(kActivations, bytes_.own_rows + bytes_.fc1 + bytes_.router_gradient + bytes_.rows_tokens +
                         bytes_.shared_fc1 + bytes_.shared_gate + bytes_.norm_output);
}

}  // namespace plumbline
