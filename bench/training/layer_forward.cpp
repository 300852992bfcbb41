// Forward of a decoder layer. README.md in this folder lists what is allocated when.
#include "bench/training/layer.hpp"
#include "bench/training/linear.hpp"
#include "bench/training/norm.hpp"

namespace plumbline::training {

Tensor make_scores(const TrainingContext& context, Category category, const char* holder) {
  if (context.config.attention_backend == AttentionBackend::fused) return {};
  const AttentionShape& shape = context.shape.attention;
  return context.make(category, holder, shape.batch * shape.heads * shape.seq, shape.seq);
}

void layer_attention(const TrainingContext& context, const SharedBuffers& shared,
                     const MicrobatchDropout& dropout, const Layer& layer, LayerActivations& saved) {
  const StageShape& shape = context.shape;
  const AttentionShape attention = dropout.attention(layer.index);
  saved.attention = context.make(context.kept, "layer attention", shape.tokens, shape.query);
  saved.log_sum_exp =
      context.make_fp32(context.kept, "layer log-sum-exp", attention.batch * attention.heads, attention.seq);
  Tensor scores;
  if (context.config.attention_backend == AttentionBackend::unfused) {
    saved.probabilities = make_scores(context, context.kept, "layer attention probabilities");
    if (attention.dropout.probability > 0) {
      const Matrix& whole = saved.probabilities;
      saved.probability_mask = context.arena.allocate(context.kept, "layer attention dropout mask",
                                                      whole.rows, whole.cols, DType::uint8);
      saved.dropped_probabilities = make_scores(context, context.kept, "layer dropped probabilities");
    }
    saved.repeated = context.make(context.kept, "layer keys and values per head", shape.tokens,
                                  2 * (shape.query - shape.key));
    scores = make_scores(context, Category::workspace, "attention scores");
  }
  const QueryKeyValue in(shape, saved.qkv);
  context.operators.attention_forward(attention, in.q, in.k, in.v, saved.attention, saved.log_sum_exp,
                                      shared.attention_scratch);
}

void layer_forward(const TrainingContext& context, const SharedBuffers& shared,
                   const MicrobatchDropout& dropout, const Layer& layer, const LayerMatrices& weights,
                   LayerActivations& saved) {
  Operators& ops = context.operators;
  const StageShape& shape = context.shape;
  const LayerVectors& vectors = layer.values;

  saved.norm1 = context.make_stream(context.kept, "layer norm1");
  saved.norm1_stats = context.make_fp32(context.kept, "layer norm1 statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.input, vectors.norm1, vectors.norm1_bias, saved.norm1, saved.norm1_stats);
  {
    const AllRows norm1 = context.gather_rows(saved.norm1);
    saved.qkv = context.make(context.kept, "layer qkv", shape.tokens, shape.qkv);
    linear(context, norm1, weights.qkv, vectors.qkv_bias, saved.qkv);
    if (shared.rope_cos) {
      const QueryKeyValue in(shape, saved.qkv);
      ops.rope(in.q, shared.rope_cos, shared.rope_sin, shape.attention.head_dim, false);
      ops.rope(in.k, shared.rope_cos, shared.rope_sin, shape.attention.head_dim, false);
    }
  }
  layer_attention(context, shared, dropout, layer, saved);
  saved.middle = context.make_stream(context.kept, "layer middle");
  context.gemm_over_tensor_ranks(
      {.a = saved.attention, .b = weights.proj, .c = saved.middle, .b_transposed = true});
  saved.middle_mask =
      dropout.add(dropout_site::after_attention(layer.index), saved.middle, vectors.proj_bias, saved.input);
  if (context.config.recompute_granularity == Recompute::selective) {
    saved.attention.reset();
    saved.drop_attention_state();
  }

  saved.norm2 = context.make_stream(context.kept, "layer norm2");
  saved.norm2_stats = context.make_fp32(context.kept, "layer norm2 statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.middle, vectors.norm2, vectors.norm2_bias, saved.norm2, saved.norm2_stats);
  {
    const AllRows norm2 = context.gather_rows(saved.norm2);
    saved.fc1 = context.make(context.kept, "layer fc1", shape.tokens, shape.fc1);
    linear(context, norm2, weights.fc1, vectors.fc1_bias, saved.fc1);
  }
  saved.activation = context.make(context.kept, "layer activation", shape.tokens, shape.ffn);
  if (context.model().activation == Activation::swiglu) {
    ops.swiglu_forward(saved.fc1, saved.activation);
  } else {
    ops.gelu_forward(saved.fc1, saved.activation);
  }
}

void layer_output(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                  const LayerMatrices& weights, LayerActivations& saved, const Matrix& output) {
  context.gemm_over_tensor_ranks(
      {.a = saved.activation, .b = weights.fc2, .c = output, .b_transposed = true});
  saved.output_mask =
      dropout.add(dropout_site::after_mlp(layer.index), output, layer.values.fc2_bias, saved.middle);
}

}  // namespace plumbline::training
