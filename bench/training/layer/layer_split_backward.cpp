// Backward of a decoder layer in two parts: input gradient and weight gradient (Qi et al. 2023,
// arXiv:2401.10241 §2). bench/training/README.md lists what is allocated when.
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

constexpr Category kKept = Category::activations;

/// As mlp_backward without the gradients of matrices; keeps their inputs.
Tensor mlp_input_gradient(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                          LayerActivations& saved, const Matrix& added) {
  const LayerWidths& shape = context.shape;
  const bool gated = is_gated(context.model().activation);
  LinearOperand own_dy = layer.fp8.fc2.gradient.read(added, "quantized gradient of MLP");
  StreamRows dy(context, own_dy, false);
  Tensor dact = context.make(gated ? kPassing : kKept, "gradient of activation", shape.tokens, shape.ffn);
  dy.multiply_for_input_gradient(weights.fc2, dact);
  dy.reset();
  own_dy.reset();
  multiply_residual(context, dact);
  saved.fc1_gradient = activation_backward(context, std::move(dact), saved.fc1, kKept);
  saved.fc1.reset();
  const LinearOperand dfc1 = layer.fp8.fc1.gradient.read(saved.fc1_gradient, "quantized gradient of fc1");
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  linear_input_gradient_over_tensor_ranks(context, dfc1, weights.fc1, dnorm);
  return dnorm;
}

void feed_forward_input_gradient(const TrainingContext& context, const MicrobatchDropout& dropout,
                                 const Layer& layer, const LayerWeights& weights, LayerActivations& saved) {
  Tensor dropped = result_gradient(context, dropout, layer.values.mlp_result, layer.gradients.mlp_result,
                                   saved.mlp_result, saved.output_mask, saved.output_gradient, kKept);
  const Matrix added = dropped ? dropped.matrix() : saved.output_gradient.matrix();
  Tensor dnorm = layer.mixture() ? mixture_backward_input(context, weights.mixture, saved.mixture, added)
                                 : mlp_input_gradient(context, layer, weights, saved, added);
  if (context.model().block != Block::sequential) {
    saved.mlp_norm_gradient = std::move(dnorm);
    saved.dropped_output_gradient = std::move(dropped);
    return;
  }
  saved.middle_gradient = context.make_stream(kKept, "gradient of middle");
  block_norm_backward(context, dnorm, saved.middle, layer.values.norm2, saved.norm2_stats,
                      saved.output_gradient, saved.middle_gradient, layer.gradients.norm2,
                      layer.gradients.norm2_bias);
  keep_if_operand(saved.norm2, saved.middle);
  saved.norm2_stats.reset();
  if (dropped) saved.output_gradient = std::move(dropped);
}

Tensor attention_input_gradient(const TrainingContext& context, const SharedBuffers& shared,
                                const MicrobatchDropout& dropout, const Layer& layer,
                                const LayerWeights& weights, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  Tensor& dropped = saved.dropped_middle_gradient;
  const Tensor& gradient = attention_block_gradient(saved);
  dropped = result_gradient(context, dropout, layer.values.attention_result, layer.gradients.attention_result,
                            saved.attention_result, saved.middle_mask, gradient, kKept);
  LinearOperand own_dy =
      layer.fp8.proj.gradient.read(dropped ? dropped : gradient, "quantized gradient of attention block");
  StreamRows dy(context, own_dy, false);
  Tensor dattention = context.make(kPassing, "gradient of attention", shape.tokens, shape.attended);
  dy.multiply_for_input_gradient(weights.proj, dattention);
  dy.reset();
  own_dy.reset();
  saved.qkv_gradient = context.make(kKept, "gradient of qkv", shape.tokens, shape.qkv);
  const QueryKeyValue out(shape, saved.qkv_gradient.matrix());
  attention_backward(context, shared, dropout, layer, saved, dattention, out);
  dattention.reset();
  saved.drop_attention_state();
  if (context.model().latent) {
    saved.drop_attention_input();
    return latent_input_gradient(context, shared, layer, weights.latent, saved);
  }
  prepare_attention_backward(context, shared, layer, saved, out);
  saved.drop_attention_input();
  const LinearOperand dqkv = layer.fp8.qkv.gradient.read(saved.qkv_gradient, "quantized gradient of qkv");
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm1");
  linear_input_gradient_over_tensor_ranks(context, dqkv, weights.qkv, dnorm);
  return dnorm;
}

void mlp_output_weight(const TrainingContext& context, const Layer& layer, const LayerMatrices& dweights,
                       LayerActivations& saved) {
  {
    const Tensor& gradient = saved.output_gradient;
    const LinearOperand own_dy = layer.fp8.fc2.gradient.read(gradient, "quantized gradient of MLP");
    const LinearOperand dy = gather_rows(context, own_dy);
    linear_weight_gradient(context, dy, saved.activation, dweights.fc2, gradient, layer.gradients.fc2_bias);
  }
  saved.activation.reset();
}

void mlp_input_weight(const TrainingContext& context, const Layer& layer, const LayerMatrices& dweights,
                      LayerActivations& saved) {
  {
    const LinearOperand dfc1 = layer.fp8.fc1.gradient.read(saved.fc1_gradient, "quantized gradient of fc1");
    const LinearOperand norm2 = gather_rows(context, mlp_input(saved));
    linear_weight_gradient(context, dfc1, norm2, dweights.fc1, saved.fc1_gradient, layer.gradients.fc1_bias);
  }
  saved.fc1_gradient.reset();
  saved.norm2.reset();
}

}  // namespace

Tensor layer_backward_input(const TrainingContext& context, const SharedBuffers& shared,
                            const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                            LayerActivations& saved) {
  feed_forward_again(context, layer, weights, saved);
  feed_forward_input_gradient(context, dropout, layer, weights, saved);
  attention_block_again(context, shared, dropout, layer, weights, saved);
  return attention_input_gradient(context, shared, dropout, layer, weights, saved);
}

void layer_backward_weight(const TrainingContext& context, const Layer& layer, UnitGradients& gradients,
                           LayerActivations& saved) {
  const LayerMatrices dweights = layer.open(gradients);
  if (layer.mixture()) {
    mixture_output_weight(context, layer.fp8.mixture, dweights.mixture, saved.mixture, saved.output_gradient);
  } else {
    mlp_output_weight(context, layer, dweights, saved);
  }
  if (saved.middle_gradient) saved.output_gradient.reset();  // else attention's products read it, too
  if (layer.mixture()) {
    mixture_input_weight(context, layer.fp8.mixture, dweights.mixture, saved.norm2.values(), saved.mixture);
    saved.norm2.reset();
  } else {
    mlp_input_weight(context, layer, dweights, saved);
  }
  {
    const Tensor& gradient = attention_block_gradient(saved);
    const LinearOperand own_dy =
        layer.fp8.proj.gradient.read(gradient, "quantized gradient of attention block");
    const LinearOperand dy = gather_rows(context, own_dy);
    const LinearOperand attention = layer.fp8.proj.input.read(saved.attention, "quantized attention");
    linear_weight_gradient(context, dy, attention, dweights.proj, gradient, layer.gradients.proj_bias);
  }
  saved.attention.reset();
  saved.middle_gradient.reset();
  saved.output_gradient.reset();
  if (context.model().latent) return latent_backward_weight(context, layer, dweights.latent, saved);
  {
    const LinearOperand dqkv = layer.fp8.qkv.gradient.read(saved.qkv_gradient, "quantized gradient of qkv");
    const LinearOperand norm1 = gather_rows(context, saved.norm1);
    linear_weight_gradient(context, dqkv, norm1, dweights.qkv, saved.qkv_gradient, layer.gradients.qkv_bias);
  }
  saved.qkv_gradient.reset();
  saved.norm1.reset();
}

}  // namespace plumbline::training
