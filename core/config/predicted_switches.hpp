// Switches of a model's layers, and a vision tower, that are predicted and not executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

/// Norms of a block: before attention and MLP, of their results, or both ("sandwich").
enum class NormPlaces { before, after, both };
/// Weights of the norms of queries and keys, where NormConfig::qk: of one head, of all heads side by
/// side, or none.
enum class QueryNorm { head, width, plain };

/// Vision tower of a multimodal model: a ViT over patches of images. Mergers make tokens of the language
/// model from squares of merge · merge patches (Qwen2-VL, arXiv:2409.12191; Qwen2.5-VL, arXiv:2502.13923;
/// Qwen3-VL, arXiv:2511.21631).
struct VisionTower {
  std::int64_t layers = 0;  // 0: the model has no tower
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  bool gated = false;            // feed-forward layers have a gate
  bool layer_norm = true;        // else RMSNorm
  std::int64_t patch = 0;        // numbers of a patch: channels · frames · rows · columns
  bool patch_bias = false;       // of their embedding
  std::int64_t positions = 0;    // rows of a learned table; 0: none
  std::int64_t window = 0;       // patches of a square that see each other; 0: an image's all do
  std::int64_t full_layers = 0;  // with a window: layers without
  std::int64_t merge = 2;
  std::int64_t out = 0;        // the language model's width
  std::int64_t deepstack = 0;  // further mergers, whose results are added behind the first layers
  bool split = false;          // cut over tensor ranks by Megatron-Bridge, else whole on each
  /// JSON object: vision_config as to_config_json writes it.
  std::string keys;

  explicit operator bool() const { return layers > 0; }
  /// Patches of a token, and the width of what a merger's first product reads and gives.
  std::int64_t square() const { return merge * merge; }
  std::int64_t merged() const { return square() * hidden; }
  /// Elements of a norm over `width` elements.
  std::int64_t norm(std::int64_t width) const { return (layer_norm ? 2 : 1) * width; }
  /// Parameters of both tables in front of the layers, of a layer, and of all mergers.
  std::int64_t embedding_parameters() const { return (patch + (patch_bias ? 1 : 0) + positions) * hidden; }
  std::int64_t layer_parameters() const {
    return 4 * hidden * (hidden + 1) + (gated ? 3 : 2) * hidden * ffn + (gated ? 2 : 1) * ffn + hidden +
           2 * norm(hidden);
  }
  std::int64_t merger_parameters() const {
    return (1 + deepstack) * (merged() + 1) * (merged() + out) + norm(hidden) + deepstack * norm(merged());
  }
  std::int64_t parameters() const {
    return embedding_parameters() + layers * layer_parameters() + merger_parameters();
  }
  friend bool operator==(const VisionTower&, const VisionTower&) = default;
};

/// All off in a model that is executed, but for `keys` and biases of projections; its `names` are empty.
struct PredictedSwitches {
  /// Features that the executed step lacks, for messages: "norms after attention and MLP, soft caps".
  std::string names;
  /// JSON object: the keys of the file that were read, beyond sizes. to_config_json writes them.
  std::string keys;
  NormPlaces norms = NormPlaces::before;
  QueryNorm query_norm = QueryNorm::head;
  std::int64_t norm_vectors = -1;  // weight vectors of a LayerNorm; -1: two, weight and bias
  bool projection_bias = false;    // of attention's output projection, where BiasConfig::linear is off
  bool feed_forward_bias = false;  // of the MLP's or the experts' projections, likewise
  bool router_bias = false;
  bool sinks = false;             // a number per head in the softmax's denominator (gpt-oss)
  bool chunked = false;           // windows are chunks: a query sees those of its own chunk up to itself
  std::int64_t scalars = 0;       // parameters of an MLP's activation (xIELU)
  std::vector<bool> has_experts;  // layers with experts; empty: all from Mixture::first_dense on
  VisionTower vision;
  void add(const std::string& name) { names += (names.empty() ? "" : ", ") + name; }
  friend bool operator==(const PredictedSwitches&, const PredictedSwitches&) = default;
};

}  // namespace plumbline
