// Queries, keys and values of multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434 §2.1), not absorbed.
// bench/training/latent.md lists what is allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Fills saved.compressed, latent, their statistics and qkv from the first norm's output. A rank's heads of queries and keys
/// begin with what is rotated.
void latent_forward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                    const LatentWeights& weights, LayerActivations& saved);
/// The second half of that: qkv, from what the norms left. `again`: selective recomputation, which finds the keys' shared part
/// rotated where it was not gathered.
void latent_up_projection(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                          const LatentWeights& weights, LayerActivations& saved, bool again);
/// From the gradients of queries, keys and values those of the matrices and norms; frees `dqkv` and what the forward left,
/// the first norm's output too. Returns the gradient of that.
Tensor latent_backward(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       const LatentWeights& weights, const LatentMatrices& dweights, LayerActivations& saved,
                       Tensor dqkv);
/// The same of saved.qkv_gradient without the gradients of matrices, for which it leaves in `saved` what they need.
Tensor latent_input_gradient(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                             const LatentWeights& weights, LayerActivations& saved);
void latent_backward_weight(const TrainingContext& context, const Layer& layer,
                            const LatentMatrices& dweights, LayerActivations& saved);

}  // namespace plumbline::training
