// One decoder layer: attention and feed-forward blocks with residuals, whose inputs, results or both are
// normed. Tensor-parallel in Megatron's way (arXiv:1909.08053 §3): qkv and fc1 column-parallel, proj and fc2
// row-parallel, one reduction after each of the latter. With sequence parallelism (Korthikanti et al. 2022,
// arXiv:2205.05198 §4.2.2) norms and residuals work on R = T/t rows.
#pragma once

#include <array>
#include <utility>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/layer/microbatch_dropout.hpp"
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

/// A block's result and the statistics of the norm behind it, for that norm's backward. Empty without one.
struct NormedResult {
  Tensor result, stats;
};

/// State that the forward of one micro-batch leaves for its backward, and, with a split backward, the input
/// gradient for the weight gradient. Tensors that only linear layers read are quantized if they work in FP8.
struct LayerActivations {
  Tensor input;
  LinearOperand norm1;
  Tensor norm1_stats;
  Tensor compressed;    // latent attention: before its norms, (R, C)
  Tensor latent;        // after them; the keys' rotated elements are those of `compressed`, rotated or not
  Tensor latent_stats;  // (R, 2)
  Tensor qkv;
  Tensor normed;        // with norms of queries and keys: their outputs, (T, q + k)
  Tensor normed_stats;  // (T, heads)
  Tensor attention, log_sum_exp;
  NormedResult attention_result;
  Tensor attention_of_heads;       // if heads are exchanged: of some of them, of longer parts of sequences
  Tensor probabilities, repeated;  // of unfused attention
  Tensor probability_mask, dropped_probabilities;  // likewise, with dropout
  Tensor middle;                                   // after the attention block's residual
  Tensor middle_mask;                              // mask of attention's residual contribution
  LinearOperand norm2;
  Tensor norm2_stats;
  MixtureState mixture;
  Tensor fc1;
  LinearOperand activation;
  NormedResult mlp_result;
  Tensor output_mask;  // mask of the MLP's residual contribution

  Tensor mlp_norm_gradient;        // parallel block: of the MLP's input, until the layer's backward ends
  Tensor dropped_output_gradient;  // of a parallel block, likewise
  Tensor output_gradient;          // once it is no longer needed: that of the MLP's result, where it differs
  Tensor fc1_gradient;
  Tensor middle_gradient;          // likewise
  Tensor dropped_middle_gradient;  // until then
  Tensor qkv_gradient;
  Tensor compressed_gradient;  // latent attention: of the norms' inputs

  /// Forgets queries, keys and values, once attention's backward has them no more.
  void drop_attention_input();
  /// Frees tensors that only attention's backward reads besides qkv and its output.
  void drop_attention_state();
  /// Full recomputation: frees all but the input and an MoE layer's counts.
  void keep_input_only();
};

/// Views of q, k and v in a tensor of qkv's shape.
struct QueryKeyValue {
  QueryKeyValue(const LayerWidths& shape, const LayerActivations& saved) : QueryKeyValue(shape, saved.qkv) {
    if (!saved.normed) return;
    q = saved.normed.matrix().columns(0, shape.query);
    k = saved.normed.matrix().columns(shape.query, shape.key);
  }
  QueryKeyValue(const LayerWidths& shape, const Matrix& qkv)
      : q(qkv.columns(0, shape.query)),
        k(qkv.columns(shape.query, shape.key)),
        v(qkv.columns(shape.query + shape.key, shape.value)) {}
  QueryKeyValue(const Matrix& query, const Matrix& key, const Matrix& value) : q(query), k(key), v(value) {}
  Matrix q, k, v;
};

/// Attention and MLP read norms of the stream, or the stream itself.
inline bool norms_inputs(const TrainingContext& context) {
  return context.model().predicted.norms != NormPlaces::after;
}
/// Their results are normed before they are added to the stream. Such models have no bias there.
inline bool norms_results(const TrainingContext& context) {
  return context.model().predicted.norms != NormPlaces::before;
}

/// Input of the MLP: the output of the norm that it shares with attention, else that of the second norm.
inline LinearOperand& mlp_input(LayerActivations& saved) {
  return saved.norm2.values().data == nullptr ? saved.norm1 : saved.norm2;
}

/// Frees `stream`. Where the weight gradient reads `operand`, a view of it, that takes over the memory.
inline void keep_if_operand(LinearOperand& operand, Tensor& stream) {
  if (stream && operand.values().data == stream.matrix().data) {
    operand = LinearOperand(std::move(stream));
  } else {
    stream.reset();
  }
}

/// Residual of a block: the stream, or its norm's output times `factor` (NormConfig::residual).
struct BlockResidual {
  BlockResidual(const TrainingContext& context, const Matrix& stream, const LinearOperand& norm)
      : from(stream) {
    if (context.model().norms.residual == 0) return;
    from = norm.values();
    factor = context.model().norms.residual;
  }
  Matrix from;
  double factor = 1;
};

/// Split backward: the gradient of attention's residual. In a parallel block it is the gradient of the
/// layer's output, until, with dropout, the layer's backward has ended and left the dropped one.
inline Tensor& attention_block_gradient(LayerActivations& saved) {
  return saved.middle_gradient ? saved.middle_gradient : saved.output_gradient;
}

/// Reads saved.input and fills the rest of `saved` up to the activation output.
void layer_forward(const TrainingContext& context, const SharedBuffers& shared,
                   const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                   LayerActivations& saved);
/// The rest of the forward: overwrites `output` (R, h).
void layer_output(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                  const LayerWeights& weights, LayerActivations& saved, const Matrix& output);
/// The parts of it that selective recomputation repeats (recomputation.hpp): the norms; core attention, from
/// qkv to attention output and log-sum-exp; a feed-forward layer without experts, up to its activation.
void first_norm_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved);
void second_norm_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved);
void mlp_forward(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                 LayerActivations& saved);
void layer_attention(const TrainingContext& context, const SharedBuffers& shared,
                     const MicrobatchDropout& dropout, const Layer& layer, LayerActivations& saved);

/// False of the model's first layer where adapters alone train: nobody reads the gradient of its input.
inline bool has_input_gradient(const TrainingContext& context, const Layer& layer) {
  return !context.frozen || layer.index > 0;
}

/// Takes the gradient of the output in `stream`, leaves that of the middle there, adds to the gradients of
/// the matrices and frees `saved` on the way. Returns the gradient of the first norm's output (empty without
/// has_input_gradient()), with which layer_input_gradient ends the layer's backward.
Tensor layer_backward(const TrainingContext& context, const SharedBuffers& shared,
                      const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                      UnitGradients& gradients, LayerActivations& saved, const Matrix& stream);
/// The same without the gradients of matrices and their biases: keeps the inputs of layer_backward_weight in
/// `saved`. The gradient of the output is saved.output_gradient.
Tensor layer_backward_input(const TrainingContext& context, const SharedBuffers& shared,
                            const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                            LayerActivations& saved);
/// Overwrites `to` with the gradient of the layer's input, if it has one; `middle_gradient` may be the same
/// memory.
void layer_input_gradient(const TrainingContext& context, const Layer& layer, LayerActivations& saved,
                          Tensor norm_gradient, const Matrix& middle_gradient, const Matrix& to);
void layer_backward_weight(const TrainingContext& context, const Layer& layer, UnitGradients& gradients,
                           LayerActivations& saved);

}  // namespace plumbline::training
