// Backward of the feed-forward part of an MoE layer (bench/training/mixtures.md).
#include <algorithm>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// From the gradient of its results to that of its activation; leaves the operands that products read of the
/// former.
void StageReplay::shared_output_gradient() {
  take(kWorkspace, bytes_.shared_operand);
  take(kWorkspace, bytes_.shared_activation);
  input_gradient(bytes_.shared_fc2_product);
}

/// From the gradient of its activation; `kept`: the activation is.
void StageReplay::shared_gradients(Category category, bool kept) {
  take(category, bytes_.shared_gate);
  take(kWorkspace, bytes_.shared_products);
  if (s_.numerics.fp8 && s_.moe.shared_gated) {  // the activation without its weights
    take(kWorkspace, bytes_.shared_activation);
    give(kWorkspace, bytes_.shared_activation);
  }
  give(kWorkspace, bytes_.shared_products);
  if (!kept) give(kActivations, bytes_.shared_activation_output);
  if (s_.numerics.fp8) {
    take(kWorkspace, bytes_.shared_fc1);
    give(kWorkspace, bytes_.shared_activation);
    take(category, bytes_.shared_fc1_gradient);
    give(kWorkspace, bytes_.shared_fc1);
  } else {
    take(category, bytes_.shared_fc1);
    give(kWorkspace, bytes_.shared_activation);
  }
  give(kActivations, bytes_.shared_fc1 + bytes_.shared_weights);
}

/// From the gradient of the activation to that of fc1, in `category`.
void StageReplay::experts_gradients(Category category) {
  take(kWorkspace, bytes_.expert_weights);
  take(kWorkspace, bytes_.wide_activation_output);  // the activation without its weights
  give(kWorkspace, bytes_.wide_activation_output);
  if (category == kWorkspace) give(kActivations, bytes_.activation_output);
  if (s_.numerics.fp8) {
    take(kWorkspace, bytes_.fc1);
    give(kWorkspace, bytes_.activation);
    take(category, bytes_.fc1_gradient);
    give(kWorkspace, bytes_.fc1);
  } else {
    take(category, bytes_.fc1);
    give(kWorkspace, bytes_.activation);
  }
  give(kActivations, bytes_.fc1);
  if (!s_.overlap.shared_expert) shared_gradients(category, category != kWorkspace);
}

void StageReplay::mixture_backward() {
  gather_gradient();
  const auto open = [&] {
    first_gradient_of(layer_unit_);
    first_gradient_of_experts();
  };
  const auto of_shared = [&] {
    shared_output_gradient();
    weight_gradient(bytes_.shared_fc2_product);
    give(kWorkspace, bytes_.shared_operand);
  };
  const Meanwhile meanwhile = if_hidden([&] {
    open();
    of_shared();
    shared_gradients(kWorkspace, false);
  });
  read_rows(kWorkspace, meanwhile);
  take(kWorkspace, bytes_.activation);  // dact
  input_gradient(bytes_.fc2_product);
  if (!meanwhile) open();
  weight_gradient(bytes_.fc2_product);
  if (!meanwhile) of_shared();
  give(kWorkspace, bytes_.read_rows);
  release_gradient();
  give(kWorkspace, bytes_.dropped);
  experts_gradients(kWorkspace);
  take(kWorkspace, bytes_.stream);  // dn
  gather_stream();
  if (!spread()) read_rows(kWorkspace);
  weight_gradient(bytes_.fc1_product);
  if (s_.numerics.fp8) {  // else the gradient takes the place of the rows
    give(spread() ? kActivations : kWorkspace, bytes_.read_rows);
    take(kWorkspace, bytes_.made_rows);
    input_gradient(bytes_.fc1_product);
  }
  rows_from_experts(s_.numerics.fp8 ? kWorkspace : kActivations, bytes_.shared_fc1_product.weight,
                    if_hidden([&] { shared_input_weight(); }));
  give(kWorkspace, bytes_.fc1_gradient);
  weights_to_tokens();
  take(kWorkspace, bytes_.router_gradient);
  if (!meanwhile) shared_input_weight();
  give(kWorkspace, bytes_.router_gradient + (spread() ? bytes_.choice_weights : bytes_.expert_weights) +
                       bytes_.shared_fc1_gradient + bytes_.shared_gate);
  release_gathered();
  give(kActivations,
       bytes_.routing + bytes_.load + bytes_.orders + bytes_.row_weights + second_norm_output());
}

void StageReplay::shared_input_weight() {
  take(kWorkspace, bytes_.shared_operand);
  weight_gradient(bytes_.shared_fc1_product);
  give(kWorkspace, bytes_.shared_operand);
}

void StageReplay::mixture_backward_input() {
  gather_gradient();
  const auto of_shared = [&] {
    shared_output_gradient();
    give(kWorkspace, bytes_.shared_operand);
  };
  const Meanwhile meanwhile = if_hidden([&] {
    of_shared();
    shared_gradients(kActivations, true);
  });
  read_rows(kActivations, meanwhile);
  take(kWorkspace, bytes_.activation);  // dact
  input_gradient(bytes_.fc2_product);
  if (!meanwhile) of_shared();
  if (!spread()) give(kWorkspace, bytes_.read_rows);
  release_gradient();
  experts_gradients(kActivations);
  take(kWorkspace, bytes_.stream);  // dn
  take(kWorkspace, bytes_.made_rows);
  input_gradient(bytes_.fc1_product);
  rows_from_experts(kWorkspace, bytes_.shared_fc1_product.weight);
  weights_to_tokens();
  take(kActivations, bytes_.router_gradient);
  give(kWorkspace, spread() ? bytes_.choice_weights : bytes_.expert_weights);
  give(kActivations, bytes_.routing + bytes_.load + bytes_.orders + bytes_.row_weights - bytes_.rows_tokens);
}

/// `dy`: where the gradient of the layer's output is.
void StageReplay::mixture_backward_weight(Category dy) {
  first_gradient_of(layer_unit_);
  first_gradient_of_experts();
  gather_gradient();
  if (!spread()) read_rows(kWorkspace);
  weight_gradient(bytes_.fc2_product);
  take(kWorkspace, bytes_.shared_operand);
  weight_gradient(bytes_.shared_fc2_product);
  give(kWorkspace, bytes_.shared_operand);
  give(spread() ? kActivations : kWorkspace, bytes_.read_rows);
  release_gradient();
  give(kActivations, bytes_.activation_output + bytes_.shared_activation_output);
  give(dy, bytes_.stream);
  gather_stream();
  shared_input_weight();
  if (!spread()) read_rows(kWorkspace);
  weight_gradient(bytes_.fc1_product);
  give(spread() ? kActivations : kWorkspace, bytes_.read_rows);
  release_gathered();
  give(kActivations, bytes_.fc1_gradient + bytes_.router_gradient + bytes_.rows_tokens +
                         bytes_.shared_fc1_gradient + bytes_.shared_gate + second_block_input());
}

}  // namespace plumbline
