// Backward of a decoder layer, input and weight gradients together. bench/training/README.md lists what is
// allocated when.
#include <utility>

#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/mixture.hpp"
#include "bench/training/layer/latent_attention.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/norm.hpp"
#include "bench/training/layer/recomputation.hpp"
#include "bench/training/layer/result_norm.hpp"
#include "bench/training/layer/stream_rows.hpp"

namespace plumbline::training {
namespace {

/// All gradients of the feed-forward layer except its norm's, from that of its residual contribution; returns
/// the gradient of its input.
Tensor mlp_backward(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                    UnitGradients& gradients, LayerActivations& saved, Tensor dropped, const Matrix& added) {
  const LayerWidths& shape = context.shape;
  LinearOperand own_dy = layer.fp8.fc2.gradient.read(added, "quantized gradient of MLP");
  StreamRows dy(context, own_dy, true);
  Tensor dact = context.make(kPassing, "gradient of activation", shape.tokens, shape.ffn);
  dy.multiply_for_input_gradient(weights.fc2, dact);
  const LayerMatrices dweights = layer.open(gradients);
  linear_output_gradients(context, dy.all(), saved.activation, weights.fc2, dact,
                          {dweights.fc2, dweights.adapters.fc2}, added, layer.gradients.fc2_bias);
  dy.reset();
  own_dy.reset();
  dropped.reset();
  saved.activation.reset();
  multiply_residual(context, dact);
  Tensor dfc1 = activation_backward(context, std::move(dact), saved.fc1, kPassing);
  saved.fc1.reset();
  LinearOperand linear_dfc1 = layer.fp8.fc1.gradient.read(dfc1, "quantized gradient of fc1");
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  linear_backward(context, mlp_input(saved), linear_dfc1, weights.fc1, dnorm,
                  {dweights.fc1, dweights.adapters.fc1}, dfc1, layer.gradients.fc1_bias);
  linear_dfc1.reset();
  dfc1.reset();
  saved.norm2.reset();
  return dnorm;
}

void feed_forward_backward(const TrainingContext& context, const MicrobatchDropout& dropout,
                           const Layer& layer, const LayerWeights& weights, UnitGradients& gradients,
                           LayerActivations& saved, const Matrix& stream) {
  Tensor dropped = result_gradient(context, dropout, layer.values.mlp_result, layer.gradients.mlp_result,
                                   saved.mlp_result, saved.output_mask, stream, kPassing);
  const Matrix added = dropped ? dropped.matrix() : stream;
  Tensor dnorm;
  if (layer.mixture()) {
    dnorm = mixture_backward(
        context, weights.mixture, [&] { return layer.open(gradients).mixture; }, saved.norm2.values(),
        saved.mixture, std::move(dropped), added);
    saved.norm2.reset();
  } else {
    dnorm = mlp_backward(context, layer, weights, gradients, saved, std::move(dropped), added);
  }
  if (context.model().block != Block::sequential) {
    saved.mlp_norm_gradient = std::move(dnorm);
    return;
  }
  block_norm_backward(context, dnorm, saved.middle, layer.values.norm2, saved.norm2_stats, stream, stream,
                      layer.gradients.norm2, layer.gradients.norm2_bias);
  saved.middle.reset();
  saved.norm2_stats.reset();
}

Tensor attention_block_backward(const TrainingContext& context, const SharedBuffers& shared,
                                const MicrobatchDropout& dropout, const Layer& layer,
                                const LayerWeights& weights, UnitGradients& gradients,
                                LayerActivations& saved, const Matrix& stream) {
  const LayerWidths& shape = context.shape;
  const LayerMatrices dweights = layer.open(gradients);
  Tensor dropped =
      result_gradient(context, dropout, layer.values.attention_result, layer.gradients.attention_result,
                      saved.attention_result, saved.middle_mask, stream, kPassing);
  const Matrix added = dropped ? dropped.matrix() : stream;
  LinearOperand own_dy = layer.fp8.proj.gradient.read(added, "quantized gradient of attention block");
  StreamRows dy(context, own_dy, true);
  Tensor dattention = context.make(kPassing, "gradient of attention", shape.tokens, shape.attended);
  dy.multiply_for_input_gradient(weights.proj, dattention);
  {
    const LinearOperand attention = layer.fp8.proj.input.read(saved.attention, "quantized attention");
    linear_output_gradients(context, dy.all(), attention, weights.proj, dattention,
                            {dweights.proj, dweights.adapters.proj}, added, layer.gradients.proj_bias);
  }
  dy.reset();
  own_dy.reset();
  dropped.reset();
  Tensor dqkv = context.make(kPassing, "gradient of qkv", shape.tokens, shape.qkv);
  const QueryKeyValue out(shape, dqkv.matrix());
  attention_backward(context, shared, dropout, layer, saved, dattention, out);
  dattention.reset();
  saved.attention.reset();
  saved.drop_attention_state();
  if (context.model().latent) {
    saved.drop_attention_input();
    return latent_backward(context, shared, layer, weights.latent, dweights.latent, saved, std::move(dqkv));
  }
  prepare_attention_backward(context, shared, layer, saved, out);
  saved.drop_attention_input();
  LinearOperand linear_dqkv = layer.fp8.qkv.gradient.read(dqkv, "quantized gradient of qkv");
  Tensor dnorm;
  if (has_input_gradient(context, layer)) dnorm = context.make_stream(kPassing, "gradient of norm1");
  linear_backward(context, saved.norm1, linear_dqkv, weights.qkv, dnorm,
                  {dweights.qkv, dweights.adapters.qkv}, dqkv, layer.gradients.qkv_bias);
  linear_dqkv.reset();
  dqkv.reset();
  saved.norm1.reset();
  return dnorm;
}

}  // namespace

Tensor layer_backward(const TrainingContext& context, const SharedBuffers& shared,
                      const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                      UnitGradients& gradients, LayerActivations& saved, const Matrix& stream) {
  feed_forward_again(context, layer, weights, saved);
  feed_forward_backward(context, dropout, layer, weights, gradients, saved, stream);
  attention_block_again(context, shared, dropout, layer, weights, saved);
  return attention_block_backward(context, shared, dropout, layer, weights, gradients, saved, stream);
}

void layer_input_gradient(const TrainingContext& context, const Layer& layer, LayerActivations& saved,
                          Tensor norm_gradient, const Matrix& middle_gradient, const Matrix& to) {
  if (!has_input_gradient(context, layer)) {
    saved.mlp_norm_gradient.reset();
    saved.norm2_stats.reset();
    saved.input.reset();
    saved.norm1_stats.reset();
    return;
  }
  Matrix residual = middle_gradient;
  if (context.model().block == Block::parallel) {
    norm_backward(context, saved.mlp_norm_gradient, saved.input, layer.values.norm2, saved.norm2_stats,
                  residual, to, layer.gradients.norm2, layer.gradients.norm2_bias);
    residual = to;
  } else if (saved.mlp_norm_gradient) {
    context.operators.add(norm_gradient, saved.mlp_norm_gradient, {}, norm_gradient);
  }
  saved.mlp_norm_gradient.reset();
  saved.norm2_stats.reset();
  block_norm_backward(context, norm_gradient, saved.input, layer.values.norm1, saved.norm1_stats, residual,
                      to, layer.gradients.norm1, layer.gradients.norm1_bias);
  norm_gradient.reset();
  keep_if_operand(saved.norm1, saved.input);
  saved.norm1_stats.reset();
  if (saved.dropped_middle_gradient) saved.middle_gradient = std::move(saved.dropped_middle_gradient);
  if (saved.dropped_output_gradient) saved.output_gradient = std::move(saved.dropped_output_gradient);
}

}  // namespace plumbline::training
