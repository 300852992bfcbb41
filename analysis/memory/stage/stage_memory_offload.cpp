// Layers whose activations are on the host between forward and backward (bench/training/offload.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

std::int64_t StageReplay::kept_until_backward(std::int64_t layer) {
  at_layer(layer);
  return bytes_.stream.tensor + kept_by_layer() - dropped_attention_block() - dropped_feed_forward();
}

/// At the end of a layer's forward, once the copy of the layer before is done.
void StageReplay::offload_after(std::int64_t layer) {
  if (layer == 0 || layer > s_.recomputation.offloaded) return;
  give(kActivations, kept_until_backward(layer - 1));
  at_layer(layer);
}

/// When a layer's backward begins: room for the layer that comes next.
void StageReplay::fetch_before(std::int64_t layer) {
  if (layer == 0 || layer > s_.recomputation.offloaded) return;
  take(kActivations, kept_until_backward(layer - 1));
  at_layer(layer);
}

}  // namespace plumbline
