// The shared expert of an MoE layer, which all tokens go through, its results weighted by a sigmoid gate if
// there is one. Nothing happens in a layer without a shared expert. bench/training/mixtures.md lists what is
// allocated when.
#pragma once

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// From x (T, h) to the output of its fc1; then to its activation.
void shared_expert_forward(const TrainingContext& context, const MixtureWeights& weights, const Matrix& x,
                           SharedExpert& shared);
void shared_expert_activation(const TrainingContext& context, const Fp8Mixture& fp8, SharedExpert& shared);
/// True if its products overlap with the exchanges of rows.
inline bool hides_shared_expert(const TrainingContext& context) {
  return context.config.parallel.ep.shared_expert_overlap;
}
/// to (T, h) becomes, or with `accumulate` +=, its residual contribution.
void shared_output(const TrainingContext& context, const MixtureWeights& weights, const SharedExpert& shared,
                   const Matrix& to, bool accumulate);

/// The gradient of its output, dy (T, h), as products read it; then that of its activation.
LinearOperand shared_output_gradient(const TrainingContext& context, const Fp8Mixture& fp8, const Matrix& dy);
Tensor shared_activation_gradient(const TrainingContext& context, const MixtureWeights& weights,
                                  const LinearOperand& dy);
/// Its weights' and fc1's gradients from that, into `shared`, fc1's of `category`. Frees fc1, and the
/// activation unless it is `kept`, whose rows then carry their weights again.
void shared_gradients(const TrainingContext& context, const Fp8Mixture& fp8, Tensor dact, Category category,
                      bool kept, SharedExpert& shared);
/// to (T, h) becomes, or with `accumulate` += the gradient of x through fc1.
void shared_input_gradient(const TrainingContext& context, const MixtureWeights& weights,
                           const SharedExpert& shared, const Matrix& to, bool accumulate);
/// dx, this rank's rows, += that through the gate.
void add_gate_input_gradient(const TrainingContext& context, const MixtureWeights& weights,
                             const SharedExpert& shared, const Matrix& dx);
void shared_output_weight(const TrainingContext& context, const MixtureMatrices& dweights,
                          const LinearOperand& dy, const SharedExpert& shared);
void shared_input_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                         const MixtureMatrices& dweights, const Matrix& x, const SharedExpert& shared);

}  // namespace plumbline::training
