// State of an MoE layer on a rank: its matrices, and the activations that a forward leaves for the backward.
#pragma once

#include "bench/training/feed_forward/dispatch.hpp"
#include "bench/training/feed_forward/routing.hpp"
#include "bench/training/linear/linear.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline::training {

/// Views into a unit's values or gradients; parts that a layer lacks have no rows.
struct MixtureMatrices {
  Matrix router;
  Matrix fc1, fc2;  // the experts' one below the other; of this rank's, if they are spread over ranks
  Matrix shared_gate, shared_fc1, shared_fc2;
};

/// Values on their way into products, those of the experts and of the shared one in FP8 if that is on.
struct MixtureWeights {
  MixtureMatrices values;
  const Fp8Mixture& fp8;
  std::int64_t layer = 0;  // its number in the model

  LinearWeight fc1() const { return {values.fc1, fp8.fc1}; }
  LinearWeight fc2() const { return {values.fc2, fp8.fc2}; }
  LinearWeight shared_fc1() const { return {values.shared_fc1, fp8.shared_fc1}; }
  LinearWeight shared_fc2() const { return {values.shared_fc2, fp8.shared_fc2}; }
};

/// A mixture's shared expert; empty without. Tensors that only products read are quantized if they work in
/// FP8.
struct SharedExpert {
  Tensor weights;  // (1, T) fp32: of every token; empty without a gate
  Tensor fc1;
  LinearOperand activation;    // its rows carry their weights
  LinearOperand fc1_gradient;  // in the backward
  Tensor gate_gradient;        // (T, 1), likewise
};

/// Tensors that only products read are quantized if they work in FP8.
struct MixtureState {
  Routing routing;
  Dispatch dispatch;   // if experts are spread over ranks, whose rows are (N', …) in place of (N, …)
  LinearOperand rows;  // of the experts, until fc1's weight gradient; likewise
  LinearOperand gradient_of_rows;  // of their results, for the weight gradient of a split backward; likewise
  SharedExpert shared;
  Tensor fc1;                  // of the experts' rows, (N, f)
  LinearOperand activation;    // likewise, times the rows' weights
  LinearOperand fc1_gradient;  // in the backward
  Tensor router_gradient;      // of the logits, of the storage type, likewise

  /// Recomputation: frees the tensors that mixture_forward computes again.
  void forget() {
    Routing kept = std::move(routing);
    kept.keep_load_only();
    *this = MixtureState();
    routing = std::move(kept);
  }
};

/// visit(Tensor&) for every tensor that a forward leaves for its backward, always in the same order; those
/// that the layer lacks are empty. Left out are counts over the micro-batches. Afterwards the tensors may be
/// others: references to them follow.
template <class Visit>
void for_each_kept_tensor(MixtureState& mixture, const Visit& visit) {
  for (Tensor* tensor :
       {&mixture.routing.logits, &mixture.routing.chosen, &mixture.routing.places, &mixture.routing.tokens,
        &mixture.routing.weights, &mixture.dispatch.order, &mixture.dispatch.places, &mixture.dispatch.picks,
        &mixture.dispatch.returns, &mixture.dispatch.weights, &mixture.shared.weights, &mixture.shared.fc1,
        &mixture.fc1}) {
    visit(*tensor);
  }
  for (LinearOperand* operand : {&mixture.rows, &mixture.activation, &mixture.shared.activation})
    operand->move_memory(visit);
}

}  // namespace plumbline::training
