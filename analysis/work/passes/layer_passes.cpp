#include "analysis/work/passes/layer_passes.hpp"

#include <algorithm>
#include <cstddef>

#include "analysis/work/parameter_units.hpp"

namespace plumbline::passes {
namespace {

void add_streams(const StageShape& s, CallList& list) {
  list.memory("add", s.stream.rows * s.stream.hidden, 3 * e(s));
}

/// Where the block's residual is its norm's output, its gradient is added there before the norm's. Without a
/// norm the gradient of the block's input is added to the stream's.
void block_norm_backward(const StageShape& s, CallList& list) {
  if (s.block.input_norms() == 0) return add_streams(s, list);
  if (s.block.normed_residual) list.memory("add", s.stream.rows * s.stream.hidden, 3 * e(s));
  norm_backward(s, list);
}

void rotate(const StageShape& s, CallList& list) {
  if (!s.attention.rotary) return;
  list.by_conversation("rope", s.attention.q, 2 * e(s), s.attention.head_dim);
  list.by_conversation("rope", s.attention.k, 2 * e(s), s.attention.head_dim);
}

/// Norms of attention's or the MLP's result. Their backward adds to nothing.
void result_norm_forward(const StageShape& s, CallList& list) {
  if (s.block.norms_results) norm_forward(s, list);
}
void result_norm_backward(const StageShape& s, CallList& list) {
  if (!s.block.norms_results) return;
  list.rows(s.block.layer_norm ? "layernorm_backward" : "rmsnorm_backward", s.stream.rows * s.stream.hidden,
            3 * e(s), s.stream.hidden);
  list.allocations(1);
}

/// Norm of every query and key head, or of all heads together.
void head_norm_forward(const StageShape& s, CallList& list) {
  if (!s.attention.qk_norm) return;
  for (const std::int64_t width : {s.attention.q, s.attention.k}) {
    if (s.attention.wide_norms) list.rows("rmsnorm_forward", s.stream.tokens * width, 2 * e(s), width);
    if (!s.attention.wide_norms) list.memory("head_norm_forward", s.stream.tokens * width, 2 * e(s));
  }
  list.allocations(2);
}
void head_norm_backward(const StageShape& s, CallList& list) {
  if (!s.attention.qk_norm) return;
  for (const std::int64_t width : {s.attention.q, s.attention.k}) {
    if (s.attention.wide_norms) list.rows("rmsnorm_backward", s.stream.tokens * width, 3 * e(s), width);
    if (!s.attention.wide_norms) list.memory("head_norm_backward", s.stream.tokens * width, 3 * e(s));
  }
}

/// Multipliers of queries, values and the MLP's last input, or of their gradients.
void multiply_elements(const StageShape& s, CallList& list, bool has, std::int64_t width) {
  if (has) list.memory("scale", s.stream.tokens * width, 2 * e(s));
}
void multiply_queries(const StageShape& s, CallList& list) {
  multiply_elements(s, list, s.block.scaled_scores, s.attention.q);
  multiply_elements(s, list, s.block.scaled_residual, s.attention.values());
}

/// Linear layers in the order of adapted_products.
enum Adapted : std::size_t { kQkv, kProjection, kFc1, kFc2 };

bool is_adapted(const StageShape& s, Adapted which) {
  return s.adapters.own && which < adapted_products(s).size();
}

/// Products of B: one per A.
void products_of_b(CallList& list, GemmPass pass, const AdaptedProduct& p) {
  for (const std::int64_t out : p.joined) list.gemm("adapter", pass, out, p.wide);
}

/// The factor of new features.
void scale_features(const StageShape& s, CallList& list, const AdaptedProduct& p) {
  if (s.adapters.scaled) list.memory("scale", s.stream.tokens * p.narrow, 2 * e(s));
  list.allocations(1);
}

void adapter_features(const StageShape& s, CallList& list, const AdaptedProduct& p) {
  list.gemm("adapter", GemmPass::forward, p.narrow, p.in);
  scale_features(s, list, p);
}

void adapter_forward(const StageShape& s, CallList& list, Adapted which) {
  if (!is_adapted(s, which)) return;
  const AdaptedProduct p = adapted_products(s)[which];
  adapter_features(s, list, p);
  products_of_b(list, GemmPass::forward, p);
}

void adapter_input_gradient(const StageShape& s, CallList& list, Adapted which) {
  if (!is_adapted(s, which)) return;
  const AdaptedProduct p = adapted_products(s)[which];
  products_of_b(list, GemmPass::input_gradient, p);
  scale_features(s, list, p);
}

void adapter_gradient_of_input(const StageShape& s, CallList& list, Adapted which) {
  if (!is_adapted(s, which)) return;
  const AdaptedProduct p = adapted_products(s)[which];
  list.gemm("adapter", GemmPass::input_gradient, p.narrow, p.in);
}

void adapter_weight_gradients(const StageShape& s, CallList& list, Adapted which) {
  if (!is_adapted(s, which)) return;
  const AdaptedProduct p = adapted_products(s)[which];
  list.gemm("adapter", GemmPass::weight_gradient, p.narrow, p.in);
  adapter_features(s, list, p);
  products_of_b(list, GemmPass::weight_gradient, p);
}

/// Products of a layer's forward that read the stream, and that make its residual contributions.
void gathered_linear(const StageShape& s, CallList& list, const char* label, std::int64_t out,
                     Adapted which) {
  constexpr const char* kGather = "sequence all-gather forward";
  if (s.overlap.tensor)
    return list.linear_of_gathered(kGather, label, GemmPass::forward, out, s.stream.hidden, false);
  list.gathered_operand(kGather);
  list.linear(label, GemmPass::forward, out, s.stream.hidden);
  adapter_forward(s, list, which);
}
void summed_linear(const StageShape& s, CallList& list, const char* label, std::int64_t in, Adapted which) {
  constexpr const char* kScatter = "sequence reduce-scatter forward";
  if (s.overlap.tensor) return list.linear_summed(kScatter, label, GemmPass::forward, s.stream.hidden, in);
  list.linear(label, GemmPass::forward, s.stream.hidden, in);
  adapter_forward(s, list, which);
  list.sum_over_tensor_ranks("tensor all-reduce forward", kScatter);
}

/// fc1 and activation of a layer without experts.
void mlp_forward(const StageShape& s, CallList& list) {
  gathered_linear(s, list, "fc1", s.mlp.fc1, kFc1);
  if (s.mlp.swiglu) list.memory("swiglu_forward", s.stream.tokens * s.mlp.fc1, 1.5 * e(s));
  if (!s.mlp.swiglu) list.memory("gelu_forward", s.stream.tokens * s.mlp.fc1, 2 * e(s));
  multiply_elements(s, list, s.block.scaled_residual, s.mlp.ffn);
  list.quantize(s.stream.tokens * s.mlp.ffn);
}

/// One of a layer's norms, which selective recomputation repeats.
void norm_again(const StageShape& s, CallList& list, bool quantized) {
  norm_forward(s, list);
  if (quantized) list.quantize_stream();
  list.allocations(1 + s.block.norm_rows);
}
/// Selective recomputation, before the backward of the feed-forward block and before that of the attention
/// block.
void feed_forward_again(const StageShape& s, CallList& list) {
  const RecomputeModules& modules = s.recomputation.modules;
  if (modules.layernorm) norm_again(s, list, !s.mixture());
  if (s.mixture()) return list.mixture_again();
  if (!modules.mlp) return;
  mlp_forward(s, list);
  list.allocations(2);
}
void attention_block_again(const StageShape& s, CallList& list, std::int64_t window) {
  const RecomputeModules& modules = s.recomputation.modules;
  if (modules.layernorm && s.block.norms() > 1) norm_again(s, list, true);
  if (modules.mla_up_proj) {
    list.latent_up_projection(true);
    list.allocations(2);
    list.exchange_heads();
  }
  if (modules.core_attn) list.attention(false, window);
}

}  // namespace

double e(const StageShape& s) {
  return static_cast<double>(s.numerics.e());
}

void norm_forward(const StageShape& s, CallList& list) {
  list.rows(s.block.layer_norm ? "layernorm_forward" : "rmsnorm_forward", s.stream.rows * s.stream.hidden,
            2 * e(s), s.stream.hidden);
}
void norm_backward(const StageShape& s, CallList& list) {
  list.rows(s.block.layer_norm ? "layernorm_backward" : "rmsnorm_backward", s.stream.rows * s.stream.hidden,
            4 * e(s), s.stream.hidden);
}

void bias_backward(const StageShape& s, CallList& list, bool has, std::int64_t elements) {
  if (has) list.memory("bias_backward", elements, e(s));
}

/// Right after the weight's gradient: in the same operator if that reads the same rows, and gradients are
/// fp32.
void bias_backward_with_weight(const StageShape& s, CallList& list, bool has, std::int64_t elements,
                               bool same_rows) {
  if (!has) return;
  if (s.numerics.fp8 || !same_rows || s.numerics.grad_type != DType::fp32)
    return bias_backward(s, list, true, elements);
  list.last<GemmCall>().bias_gradient = true;
}

/// Attention's residual sum and its norm: one operator where the sum is of the stream itself and nothing is
/// dropped.
void middle_norm_forward(const StageShape& s, CallList& list) {
  result_norm_forward(s, list);
  const bool at_once =
      s.block.input_norms() > 0 && !s.block.parallel() && !s.block.normed_residual && !s.block.dropout;
  if (at_once) {
    return list.rows(s.block.layer_norm ? "add_layernorm_forward" : "add_rmsnorm_forward",
                     s.stream.rows * s.stream.hidden, 4 * e(s), s.stream.hidden);
  }
  list.residual_sum();
  if (s.block.input_norms() > 1) norm_forward(s, list);
}

void layer_forward(const StageShape& s, CallList& list, std::int64_t window, Forward forward) {
  if (s.block.input_norms() > 0) norm_forward(s, list);
  list.quantize_stream();
  if (s.attention.latent()) {
    list.latent_forward();
  } else {
    gathered_linear(s, list, "qkv", s.attention.qkv(), kQkv);
    head_norm_forward(s, list);
    rotate(s, list);
    multiply_queries(s, list);
  }
  list.exchange_heads();
  list.attention(false, window);
  list.quantize(s.stream.tokens * s.attention.attended());
  summed_linear(s, list, "projection", s.attention.attended(), kProjection);
  middle_norm_forward(s, list);
  if (s.block.norms() > 1 && !s.mixture()) list.quantize_stream();
  if (s.mixture()) {
    list.mixture_forward(forward != Forward::first);
  } else {
    mlp_forward(s, list);
  }
  const std::int64_t norms = s.block.input_norms() + (s.block.norms_results ? 2 : 0);
  list.allocations(6 + norms * (1 + s.block.norm_rows));
  if (forward == Forward::again_to_activation && !s.block.norms_results) return list.dropout_mask();
  if (s.mixture()) list.mixture_output();
  if (!s.mixture()) summed_linear(s, list, "fc2", s.mlp.ffn, kFc2);
  result_norm_forward(s, list);
  list.residual_sum();
  list.allocations(1);
}

void quantize_gathered(const StageShape& like, CallList& list) {
  StageShape one = like;
  one.layers = 1;
  one.ends.prediction_modules = 0;
  const std::vector<OperatorCall> calls = fp8_weight_calls(one, true);
  list.calls.insert(list.calls.end(), calls.begin(), calls.end());
}

void layer_backward(const StageShape& s, CallList& list, std::int64_t window, Passes passes) {
  const char* gather = "sequence all-gather backward";
  const char* scatter = "sequence reduce-scatter backward";
  const bool overlaps = s.overlap.tensor && passes.input;
  // Product of the stream's gradient, which is gathered.
  const auto gathered = [&](const char* label, std::int64_t in) {
    if (overlaps) {
      return list.linear_of_gathered(gather, label, GemmPass::input_gradient, s.stream.hidden, in,
                                     passes.weight);
    }
    list.gathered_operand(gather);
  };
  const auto trains = [&](Adapted which) { return passes.input || !s.adapters.own || is_adapted(s, which); };
  const auto both = [&](const char* label, std::int64_t in, Adapted which) {
    if (s.adapters.own) {
      if (passes.input) list.linear(label, GemmPass::input_gradient, s.stream.hidden, in);
      adapter_input_gradient(s, list, which);
      if (passes.input) adapter_gradient_of_input(s, list, which);
      if (passes.weight) adapter_weight_gradients(s, list, which);
      return;
    }
    if (passes.input && !overlaps) list.linear(label, GemmPass::input_gradient, s.stream.hidden, in);
    if (passes.weight) list.linear(label, GemmPass::weight_gradient, s.stream.hidden, in);
  };
  // Product that reads the stream, whose gradient is summed.
  const auto summed = [&](const char* label, std::int64_t out, bool bias, Adapted which) {
    if (s.adapters.own) {
      const bool reads_lowest = passes.lowest && (which == kQkv || s.block.parallel());
      const bool input = passes.input && !reads_lowest;
      if (input || passes.weight) adapter_input_gradient(s, list, which);
      if (input) {
        list.linear(label, GemmPass::input_gradient, out, s.stream.hidden);
        adapter_gradient_of_input(s, list, which);
        list.sum_over_tensor_ranks("tensor all-reduce backward", scatter);
      }
      if (!passes.weight || !is_adapted(s, which)) return;
      list.gathered_operand(gather);
      return adapter_weight_gradients(s, list, which);
    }
    const auto add_bias = [&] { bias_backward_with_weight(s, list, bias, s.stream.tokens * out, true); };
    if (overlaps && passes.weight) {
      return list.linear_backward_bulk(gather, scatter, label, out, s.stream.hidden, add_bias);
    }
    if (overlaps) list.linear_summed(scatter, label, GemmPass::input_gradient, out, s.stream.hidden);
    if (passes.input && !overlaps) {
      list.linear(label, GemmPass::input_gradient, out, s.stream.hidden);
      list.sum_over_tensor_ranks("tensor all-reduce backward", scatter);
    }
    if (!passes.weight) return;
    list.gathered_operand(gather);
    list.linear(label, GemmPass::weight_gradient, out, s.stream.hidden);
    add_bias();
  };
  // Bias of a product whose result is added to the stream, possibly only the rank's rows.
  const auto stream_bias = [&](bool has) {
    bias_backward_with_weight(s, list, passes.weight && has && !s.adapters.own,
                              s.stream.rows * s.stream.hidden, !s.sharding.sequence_parallel);
  };
  if (passes.input) {
    feed_forward_again(s, list);
    list.dropout_backward(false);
    result_norm_backward(s, list);
  }
  if (s.mixture()) {
    list.mixture_backward(passes.input, passes.weight);
  } else {
    list.quantize_stream();
    if (trains(kFc2)) gathered("fc2", s.mlp.ffn);
    both("fc2", s.mlp.ffn, kFc2);
    stream_bias(s.predicted.feed_forward_bias);
    if (passes.input) {
      multiply_elements(s, list, s.block.scaled_residual, s.mlp.ffn);
      if (s.mlp.swiglu) list.memory("swiglu_backward", s.stream.tokens * s.mlp.fc1, 2.5 * e(s));
      if (!s.mlp.swiglu) list.memory("gelu_backward", s.stream.tokens * s.mlp.fc1, 3 * e(s));
    }
    list.quantize(s.stream.tokens * s.mlp.fc1);
    summed("fc1", s.mlp.fc1, s.predicted.feed_forward_bias, kFc1);
  }
  if (passes.input) {
    if (s.block.norms() > 1 && !(passes.lowest && s.block.parallel())) block_norm_backward(s, list);
    attention_block_again(s, list, window);
    list.dropout_backward(false);
    result_norm_backward(s, list);
  }
  list.quantize_stream();
  if (trains(kProjection)) gathered("projection", s.attention.attended());
  if (passes.weight) list.quantize(s.stream.tokens * s.attention.attended());
  both("projection", s.attention.attended(), kProjection);
  stream_bias(s.predicted.projection_bias);
  if (passes.input) list.attention(true, window);
  if (s.attention.latent()) {
    list.latent_backward(passes.input, passes.weight);
  } else {
    if (passes.input) {
      multiply_queries(s, list);
      rotate(s, list);
      head_norm_backward(s, list);
    }
    list.quantize(s.stream.tokens * s.attention.qkv());
    summed("qkv", s.attention.qkv(), s.attention.qkv_bias, kQkv);
  }
  if (passes.input) {
    if (!passes.lowest) {
      if (s.block.norms() == 1) add_streams(s, list);  // both gradients of the norm's output
      block_norm_backward(s, list);
      list.allocations(1);
    }
    list.allocations((s.mlp.swiglu ? 5 : 4) + (passes.weight ? 0 : s.block.parallel() ? 1 : 2));
  }
}

}  // namespace plumbline::passes
