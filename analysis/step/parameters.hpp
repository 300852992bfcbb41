// Parameters of a stage on one tensor rank.
#pragma once

#include <cstdint>

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// Parameters of a stage on one tensor rank, by owner, without the padding of ZeRO.
struct StageParameters {
  std::int64_t layers = 0;     // all layers together
  std::int64_t embedding = 0;  // word embeddings
  std::int64_t positions = 0;  // learned positions
  std::int64_t embedding_norm = 0;
  std::int64_t final_norm = 0;
  std::int64_t output = 0;  // output layer; 0 when it is the embedding itself
  std::int64_t vision = 0;  // tower
  std::int64_t total() const {
    return layers + embedding + positions + embedding_norm + final_norm + output + vision;
  }
};
/// Elements of a layer's expert matrices on one rank, with experts spread over ranks.
std::int64_t spread_expert_matrices(const StageShape& shape);
/// Feed-forward elements of a layer on one tensor rank; in MoE layers the router and all experts, or the
/// rank's own. Where a stage's layers differ (StageShape::kinds), those of an MoE layer; StageShape::like
/// tells them apart.
std::int64_t feed_forward_matrices(const StageShape& shape);
/// Elements of a layer's biases, sinks and the like, without those of the norms: on one tensor rank, those
/// that all tensor ranks have included.
struct LayerBiases {
  std::int64_t replicated = 0;
  std::int64_t split = 0;
  std::int64_t total() const { return replicated + split; }
};
LayerBiases layer_biases(const StageShape& shape);
/// Elements of both products of a Mamba mixer.
std::int64_t mamba_matrices(const StageShape& shape);
/// Elements of its QKV matrices.
std::int64_t qkv_matrices(const StageShape& shape);
std::int64_t parameters_per_layer(const StageShape& shape);
StageParameters parameters_of(const StageShape& shape);

/// Elements of a part of a vision tower on one tensor rank: matrices, and vectors.
struct TowerPart {
  std::int64_t matrices = 0;
  std::int64_t vectors = 0;
  std::int64_t total() const { return matrices + vectors; }
  TowerPart& operator+=(const TowerPart& other) {
    matrices += other.matrices;
    vectors += other.vectors;
    return *this;
  }
};
/// Zeros on a stage without a tower. `layers`: all together.
struct TowerElements {
  TowerPart embedding;
  TowerPart layers;
  TowerPart mergers;
  TowerPart all() const;
  /// Elements of the parts that train.
  TowerPart trained(const VisionShape& vision) const;
};
TowerElements tower_elements(const StageShape& shape);

}  // namespace plumbline
