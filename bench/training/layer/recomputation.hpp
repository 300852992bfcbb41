// Selective recomputation: what of a layer is not kept between its passes. bench/training/recompute.md lists what is freed and
// allocated when.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// In a forward, once what attention adds is in the stream: forgets what the attention block's backward computes again.
void drop_attention_block(const TrainingContext& context, LayerActivations& saved);
/// The same of the feed-forward block, once the layer's output is there.
void drop_feed_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved);

/// First of all that a block's backward does: what was forgotten, from what was kept.
void feed_forward_again(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                        LayerActivations& saved);
void attention_block_again(const TrainingContext& context, const SharedBuffers& shared,
                           const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                           LayerActivations& saved);

}  // namespace plumbline::training
