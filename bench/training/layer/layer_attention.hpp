// Core attention of a layer, on the rank alone or together with its context-parallel ranks. Also the norms of
// queries and keys, head by head, if the model has them, and their rotation.
#pragma once

#include "bench/training/layer/attention_tensors.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/layer/microbatch_dropout.hpp"

namespace plumbline::training {

/// From qkv's product to attention's inputs: norms of queries and keys, which fill saved.normed and its
/// statistics, rotation, and multipliers: scores' are those of queries, the residual's those of values.
void prepare_attention(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                       const AttentionTensors& saved);
/// True if queries and keys are normed as whole rows, not head by head.
bool norms_whole_rows(const TrainingContext& context);
/// Turns the gradients of attention's inputs in `gradient` into those of qkv's product.
void prepare_attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                                const Layer& layer, const AttentionTensors& saved,
                                const QueryKeyValue& gradient);

/// cp_comm_type a2a or a2a+p2p among ranks that share sequences.
inline bool exchanges_heads(const ParallelConfig& parallel) {
  return parallel.head_ranks() > 1;
}
/// With it, before attention: saved.qkv has all heads of the rank's tokens before, and the rank's part of the
/// heads, for the tokens of all ranks that it exchanges heads with, after.
void exchange_heads(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                    const AttentionTensors& saved);

/// Attention of another extent than the pass's own tokens (SharedBuffers::attention).
class CoreAttention {
 public:
  virtual ~CoreAttention() = default;
  /// As attention_forward; `shape` is the layer's for all rows of the pass as one sequence.
  virtual void forward(const AttentionShape& shape, std::int64_t layer, const QueryKeyValue& in,
                       const AttentionTensors& saved) const = 0;
};

/// Overwrites saved.attention and saved.log_sum_exp.
void attention_forward(const TrainingContext& context, const SharedBuffers& shared,
                       const MicrobatchDropout& dropout, const Layer& layer, const AttentionTensors& saved);
/// Overwrites `gradients`, those of queries, keys and values, from that of attention's output.
void attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                        const MicrobatchDropout& dropout, const Layer& layer, const AttentionTensors& saved,
                        const Matrix& output_gradient, const QueryKeyValue& gradients);

}  // namespace plumbline::training
