// Parameter units of a stage: matrices in units that are padded, gathered and reduced together, and vectors
// that every rank keeps whole (bench/training/README.md, "Parameters").
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

enum class UnitKind : std::uint8_t { embedding, positions, layer, output, experts, vision };

/// Elements of one unit on one tensor rank.
struct ParameterUnit {
  UnitKind kind = UnitKind::layer;
  std::int64_t layer = 0;  // of the stage, for UnitKind::layer and experts; modules count behind its layers
  std::int64_t elements = 0;  // of its matrices
  std::int64_t padded = 0;    // with ZeRO a multiple of 64 per piece, else `elements`
  std::int64_t experts =
      0;  // of another framework: of the elements, those of experts that are spread over ranks
  int pieces =
      1;  // with ZeRO: D, of instances of the optimizer their ranks, or the ranks that have the same experts
  Group group = Group::data;  // of these

  /// A shard of a split vocabulary: used before the first F of a step.
  bool of_passes(const StageShape& shape) const {
    return shape.vocabulary.split && (kind == UnitKind::embedding || kind == UnitKind::output);
  }
  /// Elements that one rank owns.
  std::int64_t owned(int zero) const { return zero >= 1 ? padded / pieces : padded; }
};

/// The units of a stage in memory order: vision tower, embedding, positions, layers, modules, output layer,
/// the modules' copy of the embedding, or the vocabulary shards of the first and last stage on the stage that
/// carries them. plumbline's own step adds the experts of each layer if they are spread over ranks. A tied
/// output layer on the embedding's rank is no unit.
std::vector<ParameterUnit> units_of(const StageShape& shape);
/// `elements` as a unit of this stage holds them: rounded up to a multiple of 64 per piece with ZeRO.
std::int64_t padded_unit(const StageShape& shape, std::int64_t elements);
/// Elements of the matrices in a layer's unit, and in that of its experts if they are spread over ranks (else
/// 0); padded.
std::int64_t padded_layer_unit(const StageShape& shape);
std::int64_t padded_expert_unit(const StageShape& shape);
/// The same for an MTP module.
std::int64_t padded_module_unit(const StageShape& shape);
/// Elements of the unit that holds the output layer's matrix, or the embedding's: v·h, padded.
std::int64_t padded_vocabulary_unit(const StageShape& shape);
std::int64_t padded_output_unit(const StageShape& shape);

/// Elements of a layer's matrices: qkv, projection, fc1, fc2; of layers that differ as feed_forward_matrices.
std::int64_t layer_matrices(const StageShape& shape);

/// A frozen linear layer of this tensor rank with an adapter of LoRA: A of `narrow` x `in`, B of `out` x
/// `wide`. In plumbline's own step A of a column-parallel layer and B of a row-parallel one are replicated
/// (bench/training/lora.md), and the layer may join several of the checkpoint that have an A each.
struct AdaptedProduct {
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t narrow = 0;  // rows of A on this tensor rank, at least one
  std::int64_t wide = 0;    // r
  bool row_parallel = false;
  std::vector<std::int64_t> joined{};  // own step: output features of each; their sum is `out`
  std::int64_t elements() const { return narrow * in + out * wide; }
  /// Own step: elements of the replicated matrix, and where it begins.
  std::int64_t replicated() const { return row_parallel ? out * wide : narrow * in; }
  std::int64_t replicated_from() const { return row_parallel ? narrow * in : 0; }
};
/// Adapted products of one layer, in the order qkv, projection, fc1, fc2; none if everything trains.
std::vector<AdaptedProduct> adapted_products(const StageShape& shape);
/// Elements of a layer that train: all of its matrices, or its adapters (own step: padded).
std::int64_t trainable_layer(const StageShape& shape);
/// Elements of one unit that train, padding included.
std::int64_t trainable_unit(const StageShape& shape, const ParameterUnit& unit);
/// Elements of a stage that train, padding included.
std::int64_t trainable_elements(const StageShape& shape);
/// Their elements in experts that are spread over ranks, which have a different number of copies.
std::int64_t spread_expert_elements(const StageShape& shape);
/// Elements of an MTP module's matrices: a layer, and the matrix that joins its two inputs.
std::int64_t prediction_module_matrices(const StageShape& shape);
/// Elements of the matrices of a stage's layers whose products read FP8 or FP4, in a framework's step.
std::int64_t quantized_matrices(const StageShape& shape);

/// Elements of a stage's vectors.
struct StageVectors {
  std::int64_t replicated = 0;  // norms, projection and fc2 biases, final norm: alike on all tensor ranks
  std::int64_t split = 0;       // qkv and fc1 biases
  std::int64_t total() const { return replicated + split; }
};
StageVectors vectors_of(const StageShape& shape);

/// Elements of a stage, padding included, and one data-parallel rank's part of them.
struct StageElements {
  std::int64_t vectors = 0;   // c: never sharded
  std::int64_t matrices = 0;  // m: padding included
  std::int64_t pieces = 0;    // of them, one of every unit
  std::int64_t others = 0;    // of m, in units that are no matrices of layers
  std::int64_t other_pieces = 0;
  std::int64_t owned() const { return vectors + pieces; }
  std::int64_t whole() const { return vectors + matrices; }
};
StageElements elements_of(const StageShape& shape);
/// Those that gradients and optimizer states are held of: all, or with adapters theirs.
StageElements trained_elements_of(const StageShape& shape);

}  // namespace plumbline
