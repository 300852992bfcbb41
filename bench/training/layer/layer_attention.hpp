// Attention proper of a layer, on the rank alone or together with the ranks that share its sequences.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// cp_comm_type a2a among ranks that share sequences.
inline bool exchanges_heads(const ParallelConfig& parallel) {
  return parallel.context > 1 && parallel.cp_comm_type == CpCommType::a2a;
}
/// With it, before attention: queries, keys and values in saved.qkv, which are of all heads and the rank's tokens, become
/// those of the rank's part of the heads and whole sequences.
void exchange_heads(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                    const LayerActivations& saved);

/// Overwrites saved.attention and saved.log_sum_exp.
void attention_forward(const TrainingContext& context, const SharedBuffers& shared,
                       const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved);
/// Overwrites `gradients`, those of queries, keys and values, from that of attention's output.
void attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                        const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved,
                        const Matrix& output_gradient, const QueryKeyValue& gradients);

}  // namespace plumbline::training
