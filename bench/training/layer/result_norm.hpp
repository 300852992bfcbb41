// Norms of attention's and the MLP's results, before they are added to the stream (ModelConfig's NormPlaces).
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Destination of the product that makes a block's result: a tensor of its own if it is normed, else `sum`.
Matrix result_place(const TrainingContext& context, NormedResult& saved, const Matrix& sum);
/// Overwrites `sum` with the norm of the result; nothing if it is not normed.
void result_norm_forward(const TrainingContext& context, const NormVectors& norm, NormedResult& saved,
                         const Matrix& sum);
/// Gradient of a block's result, in a new tensor, from `gradient`, that of the stream, to which its norm or
/// its dropped form was added. Frees `saved` and `mask`. Empty where the result itself was added: then both
/// gradients are the same.
Tensor result_gradient(const TrainingContext& context, const MicrobatchDropout& dropout,
                       const NormVectors& norm, const NormVectors& gradients, NormedResult& saved,
                       Tensor& mask, const Matrix& gradient, Category category);

}  // namespace plumbline::training
