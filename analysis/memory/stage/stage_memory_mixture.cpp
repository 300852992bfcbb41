// The feed-forward part of a layer with a mixture of experts (bench/training/mixtures.md). Never in FP8, where operands would
// be quantized, and never in parallel with attention.
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// From the router to the activation output.
void StageReplay::mixture_forward() {
  gather_operand();
  take(kept_, bytes_.routing);
  take(kWorkspace, bytes_.expert_rows);
  take(kept_, bytes_.fc1);
  take(kept_, bytes_.shared_weights + bytes_.shared_fc1);
  give(kWorkspace, bytes_.expert_rows);
  release_operand();
  take(kept_, bytes_.activation + bytes_.shared_activation);
}

void StageReplay::mixture_output() {
  take(kWorkspace, bytes_.expert_rows);
  sum_over_tensor_ranks();
  give(kWorkspace, bytes_.expert_rows);
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
  gather_operand();
  take(kWorkspace, bytes_.expert_rows);
  take(kWorkspace, bytes_.activation);  // dact
  first_gradient_of(layer_unit_);
  take(kWorkspace, bytes_.shared_activation);
  give(kWorkspace, bytes_.expert_rows);
  release_operand();
  give(kWorkspace, bytes_.dropped);
  take(kWorkspace, bytes_.expert_weights);
  give(kActivations, bytes_.activation);
  take(kWorkspace, bytes_.fc1);  // dfc1
  give(kWorkspace, bytes_.activation);
  give(kActivations, bytes_.fc1);
  shared_gradients(kWorkspace, false);
  take(kWorkspace, bytes_.stream);  // dn
  gather_operand();
  take(kWorkspace, bytes_.expert_rows);
  sum_over_tensor_ranks();
  give(kWorkspace, bytes_.expert_rows);
  give(kWorkspace, bytes_.fc1);
  take(kWorkspace, bytes_.router_gradient);
  give(kWorkspace, bytes_.router_gradient + bytes_.expert_weights + bytes_.shared_fc1 + bytes_.shared_gate);
  release_operand();
  give(kActivations, bytes_.routing + bytes_.norm_output);
}

void StageReplay::mixture_backward_input() {
  gather_operand();
  take(kWorkspace, bytes_.expert_rows);
  take(kWorkspace, bytes_.activation + bytes_.shared_activation);  // dact
  give(kWorkspace, bytes_.expert_rows);
  release_operand();
  take(kWorkspace, bytes_.expert_weights);
  take(kActivations, bytes_.fc1);  // dfc1
  give(kWorkspace, bytes_.activation);
  give(kActivations, bytes_.fc1);
  shared_gradients(kActivations, true);
  take(kWorkspace, bytes_.stream);  // dn
  take(kWorkspace, bytes_.expert_rows);
  sum_over_tensor_ranks();
  give(kWorkspace, bytes_.expert_rows);
  take(kActivations, bytes_.router_gradient);
  give(kWorkspace, bytes_.expert_weights);
  give(kActivations, bytes_.routing - bytes_.rows_tokens);
}

/// `dy`: where the gradient of the layer's output is.
void StageReplay::mixture_backward_weight(Category dy) {
  first_gradient_of(layer_unit_);
  gather_operand();
  take(kWorkspace, bytes_.expert_rows);
  give(kWorkspace, bytes_.expert_rows);
  release_operand();
  give(kActivations, bytes_.activation + bytes_.shared_activation);
  give(dy, bytes_.stream);
  gather_operand();
  take(kWorkspace, bytes_.expert_rows);
  give(kWorkspace, bytes_.expert_rows);
  release_operand();
  give(kActivations, bytes_.fc1 + bytes_.router_gradient + bytes_.rows_tokens + bytes_.shared_fc1 +
                         bytes_.shared_gate + bytes_.norm_output);
}

}  // namespace plumbline
