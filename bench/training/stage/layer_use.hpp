// A layer's values while an action uses them.
#pragma once

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// From here on, up to end_use.
inline LayerWeights begin_use(RankResources& rank, const Layer& layer) {
  const Matrix values = rank.values.begin();
  return layer.weights(values, layer.expert_unit >= 0 ? rank.expert_values.begin() : Matrix());
}

inline void end_use(RankResources& rank, const Layer& layer) {
  rank.values.end();
  if (layer.expert_unit >= 0) rank.expert_values.end();
}

}  // namespace plumbline::training
