// Backward of the feed-forward part of an MoE layer (bench/training/mixtures.md).
#include <algorithm>

#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// From the gradient of its results to that of its activation; leaves the operands that products read of the
/// former.
void StageReplay::shared_output_gradient() {
  take(kWorkspace, bytes_.shared.operand);
  take(kWorkspace, bytes_.shared.activation);
  input_gradient(bytes_.shared.fc2_product);
}

/// From the gradient of its activation; `kept`: the activation is.
void StageReplay::shared_gradients(Category category, bool kept) {
  take(category, bytes_.shared.gate);
  take(kWorkspace, bytes_.shared.products);
  if (s_.numerics.fp8 && s_.moe.shared_gated) {  // the activation without its weights
    take(kWorkspace, bytes_.shared.activation);
    give(kWorkspace, bytes_.shared.activation);
  }
  give(kWorkspace, bytes_.shared.products);
  if (!kept) give(kActivations, bytes_.shared.activation_output);
  if (s_.numerics.fp8) {
    take(kWorkspace, bytes_.shared.fc1);
    give(kWorkspace, bytes_.shared.activation);
    take(category, bytes_.shared.fc1_gradient);
    give(kWorkspace, bytes_.shared.fc1);
  } else {
    take(category, bytes_.shared.fc1);
    give(kWorkspace, bytes_.shared.activation);
  }
  give(kActivations, bytes_.shared.fc1 + bytes_.shared.weights);
}

/// From the gradient of the activation to that of fc1, in `category`.
void StageReplay::experts_gradients(Category category) {
  take(kWorkspace, bytes_.moe.expert_weights);
  take(kWorkspace, bytes_.mlp.wide_activation_output);  // the activation without its weights
  give(kWorkspace, bytes_.mlp.wide_activation_output);
  if (category == kWorkspace) give(kActivations, bytes_.mlp.activation_output);
  if (s_.numerics.fp8) {
    take(kWorkspace, bytes_.mlp.fc1);
    give(kWorkspace, bytes_.mlp.activation);
    take(category, bytes_.mlp.fc1_gradient);
    give(kWorkspace, bytes_.mlp.fc1);
  } else {
    take(category, bytes_.mlp.fc1);
    give(kWorkspace, bytes_.mlp.activation);
  }
  give(kActivations, bytes_.mlp.fc1);
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
    weight_gradient(bytes_.shared.fc2_product);
    give(kWorkspace, bytes_.shared.operand);
  };
  const Meanwhile meanwhile = if_hidden([&] {
    open();
    of_shared();
    shared_gradients(kWorkspace, false);
  });
  read_rows(kWorkspace, meanwhile);
  take(kWorkspace, bytes_.mlp.activation);  // dact
  input_gradient(bytes_.mlp.fc2_product);
  if (!meanwhile) open();
  weight_gradient(bytes_.mlp.fc2_product);
  if (!meanwhile) of_shared();
  give(kWorkspace, bytes_.moe.read_rows);
  release_gradient();
  give(kWorkspace, bytes_.stream.dropped);
  experts_gradients(kWorkspace);
  take(kWorkspace, bytes_.stream.tensor);  // dn
  if (!s_.adapters.own) {
    gather_stream();
    if (!spread()) read_rows(kWorkspace);
    weight_gradient(bytes_.mlp.fc1_product);
  }
  if (s_.numerics.fp8) give(spread() ? kActivations : kWorkspace, bytes_.moe.read_rows);
  const bool in_place = !s_.numerics.fp8 && !s_.adapters.own;  // the gradient takes the place of the rows
  if (!in_place) {
    take(kWorkspace, bytes_.moe.made_rows);
    input_gradient(bytes_.mlp.fc1_product);
  }
  rows_from_experts(in_place ? kActivations : kWorkspace, bytes_.shared.fc1_product.weight,
                    if_hidden([&] { shared_input_weight(); }));
  give(kWorkspace, bytes_.mlp.fc1_gradient);
  weights_to_tokens();
  take(kWorkspace, bytes_.moe.router_gradient);
  if (!meanwhile) shared_input_weight();
  give(kWorkspace, bytes_.moe.router_gradient +
                       (spread() ? bytes_.moe.choice_weights : bytes_.moe.expert_weights) +
                       bytes_.shared.fc1_gradient + bytes_.shared.gate);
  if (!s_.adapters.own) release_gathered();
  give(kActivations, bytes_.moe.routing + bytes_.moe.load + bytes_.moe.orders + bytes_.moe.row_weights +
                         second_norm_output());
}

void StageReplay::shared_input_weight() {
  take(kWorkspace, bytes_.shared.operand);
  weight_gradient(bytes_.shared.fc1_product);
  give(kWorkspace, bytes_.shared.operand);
}

void StageReplay::mixture_backward_input() {
  gather_gradient();
  const auto of_shared = [&] {
    shared_output_gradient();
    give(kWorkspace, bytes_.shared.operand);
  };
  const Meanwhile meanwhile = if_hidden([&] {
    of_shared();
    shared_gradients(kActivations, true);
  });
  read_rows(keeps_rows() ? kActivations : kWorkspace, meanwhile);
  take(kWorkspace, bytes_.mlp.activation);  // dact
  input_gradient(bytes_.mlp.fc2_product);
  if (!meanwhile) of_shared();
  if (!keeps_rows()) give(kWorkspace, bytes_.moe.read_rows);
  release_gradient();
  experts_gradients(kActivations);
  take(kWorkspace, bytes_.stream.tensor);  // dn
  take(kWorkspace, bytes_.moe.made_rows);
  input_gradient(bytes_.mlp.fc1_product);
  rows_from_experts(kWorkspace, bytes_.shared.fc1_product.weight);
  weights_to_tokens();
  take(kActivations, bytes_.moe.router_gradient);
  give(kWorkspace, spread() ? bytes_.moe.choice_weights : bytes_.moe.expert_weights);
  give(kActivations, bytes_.moe.routing + bytes_.moe.load + bytes_.moe.orders + bytes_.moe.row_weights -
                         bytes_.moe.rows_tokens);
}

/// `dy`: where the gradient of the layer's output is.
void StageReplay::mixture_backward_weight(Category dy) {
  first_gradient_of(layer_unit_);
  first_gradient_of_experts();
  const bool trains = !s_.adapters.own;
  if (trains) {
    gather_gradient();
    if (!spread()) read_rows(kWorkspace);
    weight_gradient(bytes_.mlp.fc2_product);
    take(kWorkspace, bytes_.shared.operand);
    weight_gradient(bytes_.shared.fc2_product);
    give(kWorkspace, bytes_.shared.operand);
    give(spread() ? kActivations : kWorkspace, bytes_.moe.read_rows);
    release_gradient();
  }
  give(kActivations, bytes_.mlp.activation_output + bytes_.shared.activation_output);
  give(dy, bytes_.stream.tensor);
  if (trains) {
    gather_stream();
    shared_input_weight();
    if (!spread()) read_rows(kWorkspace);
    weight_gradient(bytes_.mlp.fc1_product);
    give(spread() ? kActivations : kWorkspace, bytes_.moe.read_rows);
    release_gathered();
  }
  give(kActivations, bytes_.mlp.fc1_gradient + bytes_.moe.router_gradient + bytes_.moe.rows_tokens +
                         bytes_.shared.fc1_gradient + bytes_.shared.gate + second_block_input());
}

}  // namespace plumbline
