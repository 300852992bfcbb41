// A decoder layer: attention and feed-forward with residuals, whose inputs, results or both are normed.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// The stream around a layer.
struct LayerStream {
  Slot input;
  Slot output;  // memory for its output, which the layer makes
  /// Category of the gradient of the input in a split backward, where it has memory of its own.
  Category gradient_apart = Category::activations;
};

/// A layer as it is on the tape.
struct RecordedLayer {
  Slot output;
  int mixture = -1;  // number of its mixture, if it has one
};

/// y = m + MLP(norm2(m)), m = x + attention(norm1(x)), or as the model's family has it: parallel blocks,
/// norms of results, residuals from norms. `layer` outlives the tape.
RecordedLayer decoder_layer(Tape& tape, const Layer& layer, const LayerStream& stream);

}  // namespace plumbline::training
