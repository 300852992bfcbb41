// What is trained and how it is laid out: the evaluator's input, plain numbers only.
#pragma once

#include <algorithm>
#include <array>

#include "core/schedule/vocab_passes.hpp"

namespace plumbline::cluster {

struct Model {
  double layers = 0, hidden = 0, heads = 0, kv_heads = 0, head = 0, ffn = 0, vocab = 0;
  bool gated = false;  // SwiGLU: two projections into the feed-forward width
  bool tied = false;
  double positions = 0;  // learned positions; 0: rotary
  double window = 0;     // of sliding-window attention: keys that a query sees, itself included
  double windowed = 0;   // share of the layers that have it
  /// Weights of one layer's matrix products; norms and biases, a few parts in 10^4, are left out.
  double layer_parameters() const {
    const double q = heads * head;
    const double kv = kv_heads * head;
    return hidden * (q + 2 * kv) + q * hidden + (gated ? 3 : 2) * hidden * ffn;
  }
  /// Keys that a query sees, the mean over positions and layers: half of the sequence, or in a layer with a
  /// window W shorter than it W - W²/(2·sequence).
  double mean_keys(double sequence) const {
    const double beyond = std::max(sequence - window, 0.0);
    return sequence / 2 - windowed * beyond * beyond / (2 * sequence);
  }
  double parameters() const {
    return layers * layer_parameters() + vocab * hidden * (tied ? 1 : 2) + positions * hidden;
  }
};

enum class Recomputation { none, selective, full };
struct Job {
  Model model;
  double sequence = 0;
  int tensor = 1, pipeline = 1, data = 1, context = 1, chunks = 1;
  int micro_batch = 1, microbatches = 1;
  bool sequence_parallel = false;
  Recomputation recomputation = Recomputation::none;
  double recompute_layers = 1;  // full: layers per kept input
  int zero = 0;
  bool half_gradients = false;  // gradients in 16 bit whatever the software's default
  VocabPasses vocabulary = VocabPasses::none;
  bool hidden_dropout = false;  // on top of a software that trains with dropout
  bool attention_dropout = false;
  bool balanced = false;  // the last stage has fewer layers, for the output layer it holds
};

/// Layers of the first stage, of the fullest between the ends, and of the last.
struct StageLayers {
  double first = 0;
  double middle = 0;
  double last = 0;
  bool operator==(const StageLayers&) const = default;
};
/// Even: earlier stages take what is left over. Balanced: as layer_distribution in
/// core/config/layer_distribution.hpp, the stage with the most FLOPs has as few as possible.
StageLayers stage_layers(const Job& job);

}  // namespace plumbline::cluster
