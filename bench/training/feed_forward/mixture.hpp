// The feed-forward part of an MoE layer, sharded by tensor parallelism: every expert on every rank, or spread
// over ranks. bench/training/mixtures.md lists what is allocated when.
#pragma once

#include <functional>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// From the norm's output, `norm` (R, h), to state.activation, whose rows carry their weights. `bias`: the
/// router's, (1, E) fp32, or empty.
void mixture_forward(const TrainingContext& context, const MixtureWeights& weights, const Matrix& bias,
                     const Matrix& norm, MixtureState& state);
/// The last step of that, which selective recomputation repeats: state.activation from state.fc1.
void experts_activation(const TrainingContext& context, const Fp8Mixture& fp8, MixtureState& state);
/// Overwrites `output` (R, h) with the summed expert results of every token.
void mixture_output(const TrainingContext& context, const MixtureWeights& weights, const MixtureState& state,
                    const Matrix& output);
/// Computes all gradients from that of the output, `dy` (R, h); frees all of `state`, and `dropped` as soon
/// as dy is read. `open` makes the matrices' gradients. Returns the gradient of the norm's output.
Tensor mixture_backward(const TrainingContext& context, const MixtureWeights& weights,
                        const std::function<MixtureMatrices()>& open, const Matrix& norm, MixtureState& state,
                        Tensor dropped, const Matrix& dy);
/// The same without the gradients of matrices; keeps their inputs.
Tensor mixture_backward_input(const TrainingContext& context, const MixtureWeights& weights,
                              MixtureState& state, const Matrix& dy);
/// The gradient of the experts' second products, which frees the activations, then of their first and of the
/// router, which frees the rest.
void mixture_output_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                           const MixtureMatrices& dweights, MixtureState& state, const Matrix& dy);
void mixture_input_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                          const MixtureMatrices& dweights, const Matrix& norm, MixtureState& state);

}  // namespace plumbline::training
