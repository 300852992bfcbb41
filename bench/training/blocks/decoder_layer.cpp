#include "bench/training/blocks/decoder_layer.hpp"

#include "bench/training/layer/microbatch_dropout.hpp"
#include "bench/training/operators/attention.hpp"
#include "bench/training/operators/feed_forward.hpp"
#include "bench/training/operators/latent.hpp"
#include "bench/training/operators/linear.hpp"
#include "bench/training/operators/norm.hpp"
#include "bench/training/operators/residual.hpp"

namespace plumbline::training {
namespace {

/// One layer while it is recorded.
class Recording {
 public:
  Recording(Tape& tape, const Layer& layer, const LayerStream& stream)
      : tape_(tape), layer_(layer), stream_(stream), model_(tape.context.model()) {}

  RecordedLayer record() {
    const Slot x = stream_.input;
    tape_.begin_half();
    const Slot norm1 = norm(tape_, first_norm(), x);
    const std::size_t after_attention = model_.block == Block::parallel ? tape_.postponed() : 0;
    const Slot attended = attention(norm1);
    const Slot place = reserve(tape_, tape_.slot("layer middle"));
    const Slot result = add_norm(row_linear(tape_, projection(layer_), attended, place, norms_results()),
                                 place, layer_.values.attention_result, layer_.gradients.attention_result);
    const auto [middle, norm2] = add_and_norm(norm1, result, after_attention);
    made_.output = feed_forward(middle, norm2);
    tape_.end_half();
    return made_;
  }

 private:
  bool norms_inputs() const { return model_.predicted.norms != NormPlaces::after; }
  bool norms_results() const { return model_.predicted.norms != NormPlaces::before; }
  /// A norm's output is the residual, times a factor (NormConfig::residual).
  bool normed_residual() const { return model_.norms.residual != 0; }
  ResidualAddition addition(std::int64_t site, const Matrix& bias) const {
    return {site, bias, normed_residual() ? model_.norms.residual : 1};
  }

  StreamNorm first_norm() const {
    StreamNorm of{.holder = "layer norm1",
                  .statistics = "layer norm1 statistics",
                  .quantizer = layer_.fp8.qkv.input,
                  .repeats = tape_.context.config.recompute.selected().layernorm,
                  .apart = stream_.gradient_apart};
    if (!norms_inputs()) return of;
    of.values = {layer_.values.norm1, layer_.values.norm1_bias};
    of.gradients = {layer_.gradients.norm1, layer_.gradients.norm1_bias};
    return of;
  }
  /// In a parallel block x is its input.
  StreamNorm second_norm() const {
    const bool parallel = model_.block == Block::parallel;
    StreamNorm of{.holder = "layer norm2",
                  .statistics = "layer norm2 statistics",
                  .quantizer = layer_.fp8.fc1.input,
                  .repeats = tape_.context.config.recompute.selected().layernorm,
                  .gradient = parallel ? "gradient of layer input" : "gradient of middle",
                  .apart = parallel ? stream_.gradient_apart : Category::activations};
    if (!norms_inputs()) return of;
    of.values = {layer_.values.norm2, layer_.values.norm2_bias};
    of.gradients = {layer_.gradients.norm2, layer_.gradients.norm2_bias};
    return of;
  }

  Slot attention(Slot norm1) {
    AttentionInput input;
    if (model_.latent) {
      input.qkv = latent_queries_keys_values(tape_, layer_, norm1);
    } else {
      input = prepare_queries_keys(tape_, layer_, column_linear(tape_, qkv_linear(layer_), norm1));
    }
    return core_attention(tape_, layer_, exchange_heads(tape_, layer_, input));
  }

  /// The norm of a block's result, if the model has one.
  Slot add_norm(Slot result, Slot place, const NormVectors& values, const NormVectors& gradients) {
    return norms_results() ? result_norm(tape_, values, gradients, result, place) : result;
  }

  struct Middle {
    Slot stream, norm;
  };
  /// The stream after attention, and the MLP's input.
  Middle add_and_norm(Slot norm1, Slot result, std::size_t after_attention) {
    const Slot x = stream_.input;
    const ResidualAddition added =
        addition(dropout_site::after_attention(layer_.index), layer_.values.proj_bias);
    const Slot addend = normed_residual() ? norm1 : x;
    StreamNorm second = second_norm();
    // The sum is normed as it is made.
    const bool at_once = model_.block == Block::sequential && !normed_residual() && norms_inputs() &&
                         tape_.context.config.numerics.hidden_dropout == 0;
    if (at_once) next_half();
    const Slot middle = add_residual(tape_, added, addend, result, at_once);
    if (at_once) return {middle, norm_of_sum(tape_, second, middle, {addend, result, added.bias})};
    next_half();
    if (model_.block == Block::parallel_one_norm) return {middle, norm1};
    second.postponed_to = after_attention;
    return {middle, norm(tape_, second, model_.block == Block::parallel ? x : middle)};
  }

  Slot feed_forward(Slot middle, Slot norm2) {
    Slot result;
    if (layer_.mixture()) {
      const MixtureOperator mixture(tape_, layer_, norm2);
      made_.mixture = mixture.number();
      mixture.record_experts(tape_);
      begin_output();
      const bool owns_gradient = norms_results() || tape_.context.config.numerics.hidden_dropout > 0;
      result = mixture.record_output(tape_, stream_.output, norms_results(), owns_gradient);
      const Slot y = add_result(middle, norm2, result);
      mixture.record_end(tape_);
      return y;
    }
    const bool repeats = tape_.context.config.recompute.selected().mlp;
    const Slot act =
        training::activation(tape_, layer_, column_linear(tape_, fc1_linear(layer_), norm2, repeats));
    begin_output();
    result = row_linear(tape_, fc2_linear(layer_), act, stream_.output, norms_results());
    return add_result(middle, norm2, result);
  }

  /// Full recomputation repeats a normed result, which the norm's backward needs.
  void begin_output() {
    if (!norms_results()) tape_.begin_last_product();
    reserve(tape_, stream_.output);
  }

  Slot add_result(Slot middle, Slot norm2, Slot result) {
    result = add_norm(result, stream_.output, layer_.values.mlp_result, layer_.gradients.mlp_result);
    return add_residual(tape_, addition(dropout_site::after_mlp(layer_.index), layer_.values.fc2_bias),
                        normed_residual() ? norm2 : middle, result);
  }

  void next_half() {
    tape_.end_half();
    tape_.begin_half();
  }

  Tape& tape_;
  const Layer& layer_;
  const LayerStream stream_;
  const ModelConfig& model_;
  RecordedLayer made_;
};

}  // namespace

RecordedLayer decoder_layer(Tape& tape, const Layer& layer, const LayerStream& stream) {
  return Recording(tape, layer, stream).record();
}

}  // namespace plumbline::training
