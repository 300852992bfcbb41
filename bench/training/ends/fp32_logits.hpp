// The logits of a loss in fp32 with 16-bit storage (`cross_entropy_loss_fusion: false`).
#pragma once

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// A copy of the logits (T, v) in fp32, on which the loss works.
Tensor fp32_copy(const TrainingContext& context, const Matrix& logits);

/// The fp32 logits or their gradient, rounded into a tensor of the storage type.
Tensor rounded_logits(const TrainingContext& context, Category category, const char* holder,
                      const Matrix& logits);

/// Gives the fp32 gradient of the logits up for one of the storage type, which the products read.
void round_logits_gradient(const TrainingContext& context, Tensor& logits);

}  // namespace plumbline::training
