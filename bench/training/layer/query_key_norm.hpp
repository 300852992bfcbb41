// The norms of queries and keys, head by head, where a model has them.
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// Fills saved.normed and its statistics from saved.qkv. Empty weights: the model has no such norms.
void query_key_norm_forward(const TrainingContext& context, const Matrix& query_norm, const Matrix& key_norm,
                            LayerActivations& saved);
/// The gradients of queries and keys in `gradient` become those of what was normalised; nothing without norms.
void query_key_norm_backward(const TrainingContext& context, const Layer& layer,
                             const LayerActivations& saved, const QueryKeyValue& gradient);

}  // namespace plumbline::training
