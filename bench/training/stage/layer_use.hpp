// A layer's values while an action uses them, and a forward that keeps nothing.
#pragma once

#include <utility>

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

/// Forward of a layer without a backward. `place`, called with the activations once attention is done and its
/// inputs are read, says where the output (R, h) goes.
template <class Place>
void forward_only(RankResources& rank, const MicrobatchDropout& dropout, const Layer& layer, Tensor input,
                  Place&& place) {
  LayerActivations saved;
  saved.input = std::move(input);
  const LayerWeights weights = begin_use(rank, layer);
  layer_forward(rank.context, rank.shared, dropout, layer, weights, saved);
  layer_output(rank.context, dropout, layer, weights, saved, place(saved));
  end_use(rank, layer);
}

}  // namespace plumbline::training
