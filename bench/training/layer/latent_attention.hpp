// Queries, keys and values of multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434 §2.1), not
// absorbed. bench/training/latent.md lists what is allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Fills saved.compressed, latent, their statistics and qkv from the first norm's output. A rank's heads of
/// queries and keys begin with the rotated elements.
void latent_forward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                    const LatentWeights& weights, LayerActivations& saved);
/// The second half of that: qkv, from the norms' outputs. `again`: selective recomputation, where the keys'
/// shared part is already rotated if it was not gathered.
void latent_up_projection(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                          const LatentWeights& weights, LayerActivations& saved, bool again);
/// Turns the gradients of queries, keys and values into those of the matrices and norms; frees `dqkv` and the
/// forward's tensors, the first norm's output too. Returns the gradient of that.
Tensor latent_backward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       const LatentWeights& weights, const LatentMatrices& dweights, LayerActivations& saved,
                       Tensor dqkv);
/// The same for saved.qkv_gradient without the gradients of matrices, whose inputs it leaves in `saved`.
Tensor latent_input_gradient(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                             const LatentWeights& weights, LayerActivations& saved);
void latent_backward_weight(const TrainingContext& context, const Layer& layer,
                            const LatentMatrices& dweights, LayerActivations& saved);

}  // namespace plumbline::training
