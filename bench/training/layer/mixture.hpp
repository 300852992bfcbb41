// The feed-forward part of a layer with a mixture of experts, every expert on every rank or cut by tensor parallelism.
// bench/training/mixtures.md lists what is allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// From saved.norm2 to saved.activation, whose rows carry their weights.
void mixture_forward(const TrainingContext& context, const LayerWeights& weights, LayerActivations& saved);
/// Overwrites `output` (R, h) with what the experts of every token add up to.
void mixture_output(const TrainingContext& context, const LayerWeights& weights, LayerActivations& saved,
                    const Matrix& output);
/// From the gradient of that, `dy` (R, h), all gradients; frees saved.routing, activation, fc1 and norm2. Returns the
/// gradient of the second norm's output.
Tensor mixture_backward(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                        UnitGradients& gradients, LayerActivations& saved, Tensor dropped, const Matrix& dy);
/// The same without the gradients of matrices; keeps what mixture_backward_weight needs.
Tensor mixture_backward_input(const TrainingContext& context, const LayerWeights& weights,
                              LayerActivations& saved, const Matrix& dy);
/// The gradient of the experts' second products, which frees saved.activation, then of their first and of the router, which
/// frees what is left.
void mixture_output_weight(const TrainingContext& context, const LayerMatrices& dweights,
                           LayerActivations& saved, const Matrix& dy);
void mixture_input_weight(const TrainingContext& context, const LayerMatrices& dweights,
                          LayerActivations& saved);

}  // namespace plumbline::training
