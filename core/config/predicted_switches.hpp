// Switches of a model's layers that are predicted and not executed.
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
  void add(const std::string& name) { names += (names.empty() ? "" : ", ") + name; }
  friend bool operator==(const PredictedSwitches&, const PredictedSwitches&) = default;
};

}  // namespace plumbline
