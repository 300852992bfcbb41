// One decoder layer: attention and feed-forward blocks with residuals, whose inputs, results or both are
// normed. Tensor-parallel in Megatron's way (arXiv:1909.08053 §3): qkv and fc1 column-parallel, proj and fc2
// row-parallel, one reduction after each of the latter. With sequence parallelism (Korthikanti et al. 2022,
// arXiv:2205.05198 §4.2.2) norms and residuals work on R = T/t rows.
#pragma once

#include <array>
#include <utility>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/linear/fp8_layers.hpp"
#include "bench/training/linear/linear.hpp"
#include "bench/training/parameters/parameter_memory.hpp"
#include "bench/training/parameters/unit_gradients.hpp"

namespace plumbline::training {

struct NormVectors {
  Matrix weight, bias;
};
/// Views into the rank's values, or, with the same shapes, into its gradients. Norms and biases that the
/// model lacks are empty.
struct LayerVectors {
  Matrix norm1, norm1_bias, norm2, norm2_bias;
  NormVectors attention_result, mlp_result;  // of norms behind these
  Matrix query_norm, key_norm;
  Matrix query_rank_norm, kv_rank_norm;  // of latent attention
  Matrix qkv_bias, proj_bias, fc1_bias, fc2_bias;
};
/// Latent attention, in place of qkv: the matrix that compresses, and those that make queries, the keys' own
/// elements and values from that.
struct LatentMatrices {
  Matrix down, queries;
  Matrix keys_values;  // the keys' rows, then those of values
};
/// Adapters of the linear layers, empty without.
struct LayerAdapters {
  Adapter qkv, proj, fc1, fc2;
};
struct LayerMatrices {
  Matrix qkv, proj, fc1, fc2;
  MixtureMatrices mixture;  // in place of fc1 and fc2
  LatentMatrices latent;
  LayerAdapters adapters{};  // of gradients, in place of all others
};
struct LatentWeights {
  LinearWeight down, queries, keys_values;
};
/// The same matrices on their way into products.
struct LayerWeights {
  LinearWeight qkv, proj, fc1, fc2;
  MixtureWeights mixture;
  LatentWeights latent;
  Matrix unit_row;  // the unit that they are in
};

/// One layer's parameters on this rank.
class Layer {
 public:
  Layer(const ParameterMemory& memory, const StageEntry& stage, std::int64_t layer, const Fp8Layer& fp8 = {});

  LayerVectors values;
  LayerVectors gradients;
  std::int64_t index;  // in the model
  int unit;
  int adapter_unit = -1;  // of its adapters, if these alone train
  int expert_unit = -1;   // of its experts, if they are spread over ranks
  Fp8Layer fp8;           // quantized tensors and weights
  Matrix expert_bias;     // of an MoE router, (1, E) fp32; empty without
  /// True if it has a router and experts.
  bool mixture() const { return places_[kRouter].rows > 0; }
  /// The unit's values in products of this layer, which outlives them; `expert_row`: those of expert_unit, if
  /// any.
  LayerWeights weights(const Matrix& unit_row, const Matrix& expert_row = {}) const;
  /// Views into the unit's values or gradients.
  LayerMatrices matrices(const Matrix& unit_row) const {
    return matrices(unit_row, expert_unit < 0 ? unit_row : Matrix());
  }
  /// The same for all its matrices, opened for gradients; and the end of this action's contributions to them.
  LayerMatrices open(UnitGradients& of_units) const {
    if (adapter_unit >= 0) {
      LayerMatrices trained;
      trained.adapters = adapters(of_units.open(adapter_unit));
      return trained;
    }
    const Matrix row = of_units.open(unit);
    return matrices(row, expert_unit < 0 ? row : of_units.open(expert_unit));
  }
  /// Empty ones where a linear layer has no adapter.
  const LayerAdapters& adapter_values() const { return adapter_values_; }
  /// The unit that its gradients are in.
  int trained_unit() const { return adapter_unit >= 0 ? adapter_unit : unit; }
  void done(UnitGradients& of_units) const {
    if (expert_unit >= 0) of_units.done(expert_unit);
    of_units.done(trained_unit());
  }

 private:
  /// Place of a matrix within the unit, in the order of layer_parameters.cpp. Matrices that the layer lacks
  /// have no rows.
  struct Place {
    std::int64_t offset = 0;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
  };
  LayerMatrices matrices(const Matrix& unit_row, const Matrix& expert_row) const;
  /// Views into the values or gradients of the adapters' unit.
  LayerAdapters adapters(const Matrix& unit_row) const;

  static constexpr std::size_t kRouter = 4;
  std::array<Place, 11> places_;
  std::array<Place, 8> adapter_places_;  // A and B of qkv, proj, fc1, fc2
  LayerAdapters adapter_values_;
};

}  // namespace plumbline::training
