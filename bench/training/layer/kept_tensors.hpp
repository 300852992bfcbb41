// Every tensor that a layer's forward leaves for its backward.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// visit(Tensor&) for each, always in the same order; those that the layer lacks are empty. Left out are an
/// MoE layer's counts over the micro-batches, and tensors made by a backward. Afterwards the tensors may be
/// others: references to them follow.
template <class Visit>
void for_each_kept_tensor(LayerActivations& saved, const Visit& visit) {
  for (Tensor* tensor : {&saved.input,       &saved.norm1_stats,        &saved.compressed,
                         &saved.latent,      &saved.latent_stats,       &saved.qkv,
                         &saved.normed,      &saved.normed_stats,       &saved.attention,
                         &saved.log_sum_exp, &saved.attention_of_heads, &saved.probabilities,
                         &saved.repeated,    &saved.probability_mask,   &saved.dropped_probabilities,
                         &saved.middle,      &saved.middle_mask,        &saved.norm2_stats,
                         &saved.fc1,         &saved.output_mask}) {
    visit(*tensor);
  }
  MixtureState& mixture = saved.mixture;
  for (Tensor* tensor :
       {&mixture.routing.logits, &mixture.routing.chosen, &mixture.routing.places, &mixture.routing.tokens,
        &mixture.routing.weights, &mixture.dispatch.order, &mixture.dispatch.places, &mixture.dispatch.picks,
        &mixture.dispatch.returns, &mixture.dispatch.weights, &mixture.shared.weights, &mixture.shared.fc1,
        &mixture.fc1}) {
    visit(*tensor);
  }
  for (LinearOperand* operand : {&saved.norm1, &saved.norm2, &saved.activation, &mixture.rows,
                                 &mixture.activation, &mixture.shared.activation}) {
    operand->move_memory(visit);
  }
}

}  // namespace plumbline::training
