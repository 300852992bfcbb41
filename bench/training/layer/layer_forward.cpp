// Forward of a decoder layer. bench/training/README.md lists what is allocated when.
#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/mixture.hpp"
#include "bench/training/layer/latent_attention.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/norm.hpp"
#include "bench/training/layer/recomputation.hpp"
#include "bench/training/layer/result_norm.hpp"
#include "bench/training/layer/stream_rows.hpp"
#include "bench/training/layer/unfused_attention.hpp"

namespace plumbline::training {
void layer_attention(const TrainingContext& context, const SharedBuffers& shared,
                     const MicrobatchDropout& dropout, const Layer& layer, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  const AttentionShape attention = dropout.attention(layer.index);
  saved.attention = context.make(context.kept, "layer attention", shape.tokens, shape.attended);
  saved.log_sum_exp =
      context.make_fp32(context.kept, "layer log-sum-exp", attention.batch * attention.heads, attention.seq);
  if (exchanges_heads(context.config.parallel))
    saved.attention_of_heads =
        context.make(context.kept, "layer attention of heads", shape.tokens, shape.attended);
  make_unfused_attention(context, attention, saved);
  attention_forward(context, shared, dropout, layer, saved);
}

void first_norm_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  const LayerVectors& vectors = layer.values;
  if (!norms_inputs(context)) {
    saved.norm1 = LinearOperand(saved.input.matrix());
    return;
  }
  Tensor norm1 = context.make_stream(layer.fp8.qkv.input.category_of_wide(context.kept), "layer norm1");
  saved.norm1_stats = context.make_fp32(context.kept, "layer norm1 statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.input, vectors.norm1, vectors.norm1_bias, norm1, saved.norm1_stats);
  saved.norm1 = layer.fp8.qkv.input.keep(std::move(norm1), context.kept, "layer norm1");
}

namespace {

/// normed(y, statistics) computes it.
template <class Normed>
void second_norm(const TrainingContext& context, const Layer& layer, LayerActivations& saved,
                 const Normed& normed) {
  const LayerWidths& shape = context.shape;
  Tensor norm2 = context.make_stream(layer.fp8.fc1.input.category_of_wide(context.kept), "layer norm2");
  saved.norm2_stats = context.make_fp32(context.kept, "layer norm2 statistics", shape.norm_stats, shape.rows);
  normed(norm2.matrix(), saved.norm2_stats.matrix());
  saved.norm2 = layer.fp8.fc1.input.keep(std::move(norm2), context.kept, "layer norm2");
}

/// The sum of the stream and attention's result is normed as it is made: no dropout is drawn for it, and the
/// addend stays until then.
bool norms_as_it_adds(const TrainingContext& context, const MicrobatchDropout& dropout) {
  return context.model().block == Block::sequential && context.model().norms.residual == 0 &&
         norms_inputs(context) && !dropout.drops_hidden();
}

}  // namespace

void second_norm_forward(const TrainingContext& context, const Layer& layer, LayerActivations& saved) {
  const LayerVectors& vectors = layer.values;
  if (!norms_inputs(context)) {
    saved.norm2 = LinearOperand(saved.middle.matrix());
    return;
  }
  const bool sequential = context.model().block == Block::sequential;
  second_norm(context, layer, saved, [&](const Matrix& y, const Matrix& stats) {
    norm_forward(context, sequential ? saved.middle : saved.input, vectors.norm2, vectors.norm2_bias, y,
                 stats);
  });
}

void mlp_forward(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                 LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  {
    StreamRows rows(context, mlp_input(saved), false);
    saved.fc1 = context.make(context.kept, "layer fc1", shape.tokens, shape.fc1);
    rows.multiply(weights.fc1, layer.values.fc1_bias, saved.fc1);
  }
  Tensor activation = context.make(layer.fp8.fc2.input.category_of_wide(context.kept), "layer activation",
                                   shape.tokens, shape.ffn);
  activation_forward(context, saved.fc1, activation);
  multiply_residual(context, activation);
  saved.activation = layer.fp8.fc2.input.keep(std::move(activation), context.kept, "layer activation");
}

void layer_forward(const TrainingContext& context, const SharedBuffers& shared,
                   const MicrobatchDropout& dropout, const Layer& layer, const LayerWeights& weights,
                   LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  const LayerVectors& vectors = layer.values;
  first_norm_forward(context, layer, saved);
  if (context.model().latent) {
    latent_forward(context, shared, layer, weights.latent, saved);
  } else {
    {
      StreamRows rows(context, saved.norm1, false);
      saved.qkv = context.make(context.kept, "layer qkv", shape.tokens, shape.qkv);
      rows.multiply(weights.qkv, vectors.qkv_bias, saved.qkv);
    }
    prepare_attention(context, shared, layer, saved);
  }
  if (exchanges_heads(context.config.parallel)) exchange_heads(context, dropout, layer, saved);
  layer_attention(context, shared, dropout, layer, saved);
  saved.middle = context.make_stream(context.kept, "layer middle");
  {
    const LinearOperand attention = layer.fp8.proj.input.read(saved.attention, "quantized attention");
    const Matrix result = result_place(context, saved.attention_result, saved.middle);
    linear_over_tensor_ranks(context, attention, weights.proj, result);
  }
  result_norm_forward(context, vectors.attention_result, saved.attention_result, saved.middle);
  if (norms_as_it_adds(context, dropout)) {
    drop_attention_block(context, saved);
    const ResidualSum added{
        .a = saved.middle, .b = saved.input, .bias = vectors.proj_bias, .sum = saved.middle};
    second_norm(context, layer, saved, [&](const Matrix& y, const Matrix& stats) {
      added_norm_forward(context, added, vectors.norm2, vectors.norm2_bias, y, stats);
    });
  } else {
    const BlockResidual residual(context, saved.input, saved.norm1);
    saved.middle_mask = dropout.add(dropout_site::after_attention(layer.index), saved.middle,
                                    vectors.proj_bias, residual.from, residual.factor);
    drop_attention_block(context, saved);
    if (context.model().block != Block::parallel_one_norm) second_norm_forward(context, layer, saved);
  }
  if (layer.mixture()) {
    return mixture_forward(context, weights.mixture, layer.expert_bias, saved.norm2.values(), saved.mixture);
  }
  mlp_forward(context, layer, weights, saved);
}

void layer_output(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                  const LayerWeights& weights, LayerActivations& saved, const Matrix& output) {
  const Matrix result = result_place(context, saved.mlp_result, output);
  if (layer.mixture()) {
    mixture_output(context, weights.mixture, saved.mixture, result);
  } else {
    linear_over_tensor_ranks(context, saved.activation, weights.fc2, result);
  }
  result_norm_forward(context, layer.values.mlp_result, saved.mlp_result, output);
  const BlockResidual residual(context, saved.middle, saved.norm2);
  saved.output_mask = dropout.add(dropout_site::after_mlp(layer.index), output, layer.values.fc2_bias,
                                  residual.from, residual.factor);
  if (context.model().block != Block::sequential) saved.middle.reset();
  drop_feed_forward(context, layer, saved);
}

}  // namespace plumbline::training
