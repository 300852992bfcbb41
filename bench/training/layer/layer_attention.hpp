// Attention proper of a layer, on the rank alone or together with the ranks that share its sequences.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Overwrites saved.attention and saved.log_sum_exp.
void attention_forward(const TrainingContext& context, const SharedBuffers& shared,
                       const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved);
/// Overwrites `gradients`, those of queries, keys and values, from that of attention's output.
void attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                        const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved,
                        const Matrix& output_gradient, const QueryKeyValue& gradients);

}  // namespace plumbline::training
