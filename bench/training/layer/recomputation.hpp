// Selective recomputation: tensors of a layer that are not kept between its passes.
// bench/training/recompute.md lists what is freed and allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// In a forward, once attention's result is in the stream: frees the tensors that the attention block's
/// backward recomputes.
void drop_attention_block(const TrainingContext& context, LayerActivations& saved);
/// The same for the feed-forward block, once the layer's output is there.
void drop_feed_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved);

/// First step of a block's backward: recomputes the freed tensors from the kept ones.
void feed_forward_again(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                        LayerActivations& saved);
void attention_block_again(const TrainingContext& context, const SharedBuffers& shared,
                           const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                           LayerActivations& saved);

}  // namespace plumbline::training
