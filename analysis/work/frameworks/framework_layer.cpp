// One transformer layer as a framework launches it.
#include "analysis/work/framework_list.hpp"
#include "analysis/work/frameworks/framework_adapters.hpp"
#include "analysis/work/frameworks/framework_attention.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/frameworks/framework_frozen.hpp"
#include "analysis/work/frameworks/framework_llama.hpp"
#include "analysis/work/frameworks/framework_mamba.hpp"
#include "analysis/work/frameworks/framework_mixture.hpp"
#include "analysis/work/frameworks/framework_python.hpp"
#include "analysis/work/frameworks/torchtitan_deepseek.hpp"
#include "analysis/work/frozen_weights.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Asynchronous tensor parallelism hides a collective behind pieces of the adjacent product. Only one of the
/// two at a layer's edge has such a product, and its first and last piece are exposed.
constexpr double kAsyncExposed = 0.65;

double exposed_edges(const Software& sw) {
  return sw.communication.async_tensor ? kAsyncExposed : 1;
}

/// Bias, dropout and sum with the stream.
void residual(const StageShape& s, FrameworkCalls& calls) {
  const std::int64_t stream = s.stream.rows * s.stream.hidden;
  if (!s.block.dropout) return calls.stream("add", stream, 6);
  if (s.software->kernels.fused_dropout) return calls.stream("dropout_add", stream, 7);
  calls.stream("bias", stream, 4);
  calls.draw("dropout", stream, 5);
  calls.stream("add", stream, 6);
}

/// The sum behind attention or another mixer, and the norm in front of the feed-forward layer, if any.
void sum_behind_mixer(const StageShape& s, FrameworkCalls& calls) {
  const std::int64_t stream = s.stream.rows * s.stream.hidden;
  const auto& kernels = s.software->kernels;
  if (kernels.fused_residual_norm && !s.block.parallel() && !s.block.dropout)
    return calls.stream("add and norm", stream,
                        6 + 2 * (kernels.norm_passes - 1));  // the sum is not read again
  residual(s, calls);
  if (s.block.norms() > 1) calls.stream("norm", stream, norm_bytes(s, false));
}

double operators(const StageShape& s, double launched, bool attention_inside) {
  const bool apart = attention_inside && s.attention.unfused && !softmax_is_fused(s);
  return launched + (apart ? 6 : 0);
}

/// Inputs of a graph of a part of a layer are copied into its static tensors, backward the gradients of its
/// results (Transformer Engine, pytorch/graph.py, Graphed). Results with gradients as wide as the stream: the
/// layer's, or the residual and the experts' input.
void copy_into_graph(const StageShape& s, FrameworkCalls& calls, bool backward) {
  if (s.graphs.step || s.graphs.layer + s.graphs.router == 0) return;
  const double results = s.mixture() && s.graphs.router > 0 ? 2 : 1;
  calls.stream("copy into graph", s.stream.rows * s.stream.hidden, 4 * (backward ? results : 1));
}

/// Operators of the collectives' wrappers in one direction.
double communication_operators(const StageShape& s) {
  return s.sharding.tensor > 1 ? 4.0 * (s.sharding.sequence_parallel ? 2 : 1) : 0;
}

/// Operators of a layer in one direction, of which attention and a feed-forward layer have about half each.
double layer_operators(const StageShape& s, bool backward) {
  const Software& sw = *s.software;
  const double both = backward ? sw.host.layer_backward_operators : sw.host.layer_forward_operators;
  const double halves = (s.has_attention() ? 1 : 0) + (s.mixer.feed_forward ? 1 : 0);
  return both * halves / 2 + (s.has_mamba() ? MambaCalls::operators(backward) : 0);
}

/// Norms of queries and keys, modules of their own: a kernel each, backward two.
double norm_operators(const StageShape& s, bool backward) {
  return s.attention.qk_norm ? (backward ? 4 : 2) : 0;
}

/// Tensor-parallel collectives of a forward: all, all but the last sum, gathers alone, none.
enum class Edges : std::uint8_t { all, needed, gathers, none };

/// Parts of a forward: all, or those that recomputation repeats.
struct Wanted {
  bool attention = true;
  PartShares qkv{};  // shares of the products
  double projection = 1;
  PartShares fc1{};
  double fc2 = 1;
  Edges edges = Edges::all;
};

/// The parts of a recomputed layer that the backward reads: all but the second product of the MLP, its sum
/// and the stream (torch.utils.checkpoint stops early; compiled, nothing reads them).
constexpr Wanted kNeeded = {true, {}, 1, {}, 0, Edges::needed};

/// Selective recomputation of operators: results of products are kept in turn, and those of scattered sums
/// (torchtitan, parallelize_llama.py, _save_list). Llama: queries, values, gate and the second product are
/// kept; in eager mode the projection runs again though its scattered sum is kept.
Wanted not_kept(const StageShape& s) {
  constexpr double kHalf = 0.5;
  if (!is_torchtitan_llama(s))
    return {false, {kHalf, kHalf, kHalf}, kHalf, {kHalf, kHalf, kHalf}, kHalf, Edges::none};
  const bool kept = s.software->kernels.compiled && s.sharding.sequence_parallel && s.sharding.tensor > 1;
  return {false, {0, 1, 0}, kept ? 0.0 : 1.0, {0, 1, 0}, 0, Edges::gathers};
}

constexpr const char* kForward = "tensor collectives forward";
constexpr const char* kBackward = "tensor collectives backward";

/// Number of a layer's edges with awaited collectives, of gathered inputs and summed outputs alike:
/// attention's, and that of a feed-forward layer or shared expert.
int edges_of(const StageShape& s, bool overlaps) {
  const bool mixed = s.has_mamba() || (s.has_attention() && !overlaps && !s.attention.latent());
  const bool fed = s.mixture() ? s.moe.shared > 0 : s.mixer.feed_forward && !overlaps;
  return (mixed ? 1 : 0) + (fed ? 1 : 0);
}

/// Products that read the stream: a mixer's and a feed-forward layer's first.
std::int64_t linear_inputs(const StageShape& s) {
  return (s.mixer.kind == Mixer::none ? 0 : 1) + (s.mixer.feed_forward && !s.mixture() ? 1 : 0);
}
/// Elements of a token that the product behind a mixer reads.
std::int64_t mixed_width(const StageShape& s) {
  return s.has_mamba() ? s.mixer.mamba.inner() : s.attention.attended();
}

/// With latent attention the projection's output, or its gradient, alone.
void projected_edge(const StageShape& s, bool backward, FrameworkCalls& calls) {
  if (backward && !s.sharding.sequence_parallel) return;
  calls.collective(!s.sharding.sequence_parallel ? CallKind::all_reduce
                   : backward                    ? CallKind::all_gather
                                                 : CallKind::reduce_scatter,
                   backward ? kBackward : kForward, s.stream.tokens * s.stream.hidden, s.numerics.type);
}

/// `again`: for the backward alone.
void mixture_forward(const StageShape& s, bool again, FrameworkCalls& calls) {
  if (is_torchtitan_mixture(s)) return torchtitan_mixture_forward(s, again, calls);
  MixtureCalls(s, calls).forward();
}

void forward(const StageShape& s, std::int64_t window, Wanted wanted, FrameworkCalls& calls) {
  const Software& sw = *s.software;
  const std::int64_t qkv = s.attention.q + 2 * s.attention.k;
  const bool overlaps = s.overlap.tensor && wanted.edges != Edges::none && !s.attention.latent();
  copy_into_graph(s, calls, false);
  const auto of_gathered = [&](Projection of, const PartShares& shares) {
    if (!overlaps) return project(s, of, GemmPass::forward, shares, calls);
    const bool first = of == Projection::qkv;
    calls.ring_linear(kForward, first ? "qkv" : "fc1", GemmPass::forward, first ? qkv : s.mlp.fc1,
                      s.stream.hidden);
  };
  const auto summed = [&](const char* label, std::int64_t in, double share) {
    if (overlaps) return calls.pipelined_linear(kForward, label, GemmPass::forward, s.stream.hidden, in);
    calls.linear(label, GemmPass::forward, s.stream.hidden, in, share);
  };
  calls.stream("norm", s.stream.rows * s.stream.hidden, norm_bytes(s, false));
  if (s.has_mamba()) {
    MambaCalls(s, calls).forward();
  } else if (s.attention.latent()) {
    LatentCalls(s, calls).forward(wanted.qkv.first);
  } else if (s.has_attention()) {
    of_gathered(Projection::qkv, wanted.qkv);
    if (s.attention.qkv_bias && !s.mlp.swiglu) calls.stream("bias", s.stream.tokens * qkv, 4);
    turn_queries_and_keys(s, calls, false);
    repeat_heads(s, calls);
  }
  if (s.has_attention()) {
    if (wanted.attention) attention_forward(s, window, calls);
    summed("projection", s.attention.attended(), wanted.projection);
  }
  if (s.mixer.kind != Mixer::none) sum_behind_mixer(s, calls);
  if (s.mixture()) {
    mixture_forward(s, wanted.edges == Edges::needed, calls);
  } else if (s.mixer.feed_forward) {
    of_gathered(Projection::fc1, wanted.fc1);
    const double activation = s.mlp.swiglu ? (sw.kernels.compiled ? 6 : 10) : 4;
    calls.stream(s.mlp.swiglu ? "swiglu" : "gelu", s.stream.tokens * s.mlp.ffn, activation);
    summed("fc2", s.mlp.ffn, wanted.fc2);
  }
  if (s.mixer.feed_forward && wanted.edges != Edges::needed) residual(s, calls);
  calls.stream("norm", s.predicted.more_norms * s.stream.rows * s.stream.hidden, 2 * sw.kernels.norm_passes);
  // Casts of the four inputs.
  calls.casts(linear_inputs(s) * s.stream.tokens * s.stream.hidden, true);
  calls.casts(s.stream.tokens * (mixed_width(s) + (s.mixture() ? 0 : s.mlp.ffn)), false);
  // Gathered parameters are copied out of the communication buffer, and cast if products read FP8.
  if (s.sharding.zero >= 3 && !sw.communication.gathers_in_place)
    calls.stream("copy parameters", layer_matrices(s),
                 s.adapters.quantized() ? 2 * frozen_packed_bytes(s, 1)
                 : gathers_fp8(s)       ? 2
                                        : 4);
  if (s.sharding.zero >= 3 && !gathers_fp8(s) && !sw.fp8.always) calls.casts(layer_matrices(s), false);
  if (wanted.edges == Edges::none) return;
  if (s.attention.latent()) LatentCalls(s, calls).gather();
  if (const int edges = edges_of(s, overlaps); edges > 0) {
    const int sums = wanted.edges == Edges::gathers ? 0 : wanted.edges == Edges::needed ? edges - 1 : edges;
    calls.edges(kForward, edges, sums, exposed_edges(sw));
  }
  if (s.attention.latent()) projected_edge(s, false, calls);
}

/// `overlaps`: the collectives overlap with the products, and so do the weight gradients that some of them
/// need.
void backward_input(const StageShape& s, std::int64_t window, bool overlaps, FrameworkCalls& calls) {
  const Software& sw = *s.software;
  const std::int64_t stream = s.stream.rows * s.stream.hidden;
  const std::int64_t qkv = s.attention.q + 2 * s.attention.k;
  const double dropped = s.block.dropout ? 5 : 2;
  const auto norm_and_sum = [&](bool has_norm) {
    if (has_norm) calls.stream("norm backward", stream, norm_bytes(s, true));
    calls.stream("add", stream, 6);
  };
  // Product of the stream's gradient, which is gathered.
  const auto of_gathered = [&](const char* label, std::int64_t in) {
    if (!overlaps) return calls.linear(label, GemmPass::input_gradient, s.stream.hidden, in);
    calls.ring_linear(kBackward, label, GemmPass::input_gradient, s.stream.hidden, in);
    if (!s.adapters.frozen()) calls.linear(label, GemmPass::weight_gradient, s.stream.hidden, in);
  };
  const auto summed = [&](Projection of) {
    if (!overlaps) {
      calls.while_gathered(kBackward, [&] { project(s, of, GemmPass::input_gradient, {}, calls); });
      return add_input_gradients(s, of, calls);
    }
    const char* label = of == Projection::qkv ? "qkv" : "fc1";
    const std::int64_t out = of == Projection::qkv ? qkv : s.mlp.fc1;
    if (s.adapters.frozen()) {  // there is no weight gradient that could hide the result's scattering
      calls.linear(label, GemmPass::input_gradient, out, s.stream.hidden);
      return calls.collective(CallKind::reduce_scatter, kBackward, s.stream.tokens * s.stream.hidden,
                              s.numerics.type);
    }
    calls.bulk_gradients(kBackward, kBackward, label, out, s.stream.hidden);
  };
  copy_into_graph(s, calls, true);
  if (s.mixer.feed_forward) calls.stream("dropout backward", stream, dropped);
  if (s.mixture()) {
    if (is_torchtitan_mixture(s)) {
      torchtitan_mixture_backward(s, calls);
    } else {
      MixtureCalls(s, calls).backward_input();
    }
  } else if (s.mixer.feed_forward) {
    of_gathered("fc2", s.mlp.ffn);
    const double activation = s.mlp.swiglu ? (sw.kernels.compiled ? 10 : 16) : 6;
    calls.stream(s.mlp.swiglu ? "swiglu backward" : "gelu backward", s.stream.tokens * s.mlp.ffn, activation);
    summed(Projection::fc1);
  }
  if (s.mixer.feed_forward && s.mixer.kind != Mixer::none) norm_and_sum(s.block.norms() > 1);
  if (s.mixer.kind != Mixer::none) calls.stream("dropout backward", stream, dropped);
  if (s.has_attention()) {
    of_gathered("projection", s.attention.attended());
    attention_backward(s, window, calls);
  }
  if (s.has_mamba()) {
    MambaCalls(s, calls).backward_input();
  } else if (s.attention.latent()) {
    LatentCalls(s, calls).backward_input();
  } else if (s.has_attention()) {
    repeat_heads(s, calls);
    turn_queries_and_keys(s, calls, true);
    if (!is_torchtitan_llama(s))
      calls.stream("concatenate", s.stream.tokens * qkv, 4);  // gradients of query, key and value
    summed(Projection::qkv);
  }
  norm_and_sum(true);
  calls.stream("norm backward", s.predicted.more_norms * stream, norm_bytes(s, true));
  const std::int64_t feed_forward = sw.fp8.always ? s.mlp.ffn : s.mlp.fc1;
  const std::int64_t mixed = s.has_mamba() ? s.mixer.mamba.projected() : s.attention.qkv();
  calls.casts(
      s.stream.tokens * (linear_inputs(s) * s.stream.hidden + mixed + (s.mixture() ? 0 : feed_forward)),
      false);
  if (s.block.linear_bias && !s.mlp.swiglu) {
    // Bias gradients in their own kernel: always for the rank's rows of the stream where products read
    // gathered ones.
    std::int64_t apart = 2 * stream + s.stream.tokens * (qkv + s.mlp.ffn);
    if (sw.kernels.fused_bias_gradient) apart = s.sharding.sequence_parallel ? 2 * stream : 0;
    if (apart > 0) calls.stream("bias backward", apart, 2);
  }
  if (const int edges = edges_of(s, overlaps); edges > 0)
    calls.edges(kBackward, edges, edges, exposed_edges(sw));
  if (!s.attention.latent()) return;
  projected_edge(s, true, calls);
  LatentCalls(s, calls).scatter();
}

/// `products`: those of linear layers are not computed with the input gradients already.
void backward_weight(const StageShape& s, bool products, FrameworkCalls& calls) {
  const Software& sw = *s.software;
  if (s.mixture()) MixtureCalls(s, calls).backward_weight();
  if (products && !s.adapters.frozen()) {
    if (!s.mixture() && s.mixer.feed_forward) {
      calls.linear("fc2", GemmPass::weight_gradient, s.stream.hidden, s.mlp.ffn);
      project(s, Projection::fc1, GemmPass::weight_gradient, {}, calls);
    }
    if (s.has_attention())
      calls.linear("projection", GemmPass::weight_gradient, s.stream.hidden, s.attention.attended());
    if (s.has_mamba()) {
      MambaCalls(s, calls).backward_weight();
    } else if (s.attention.latent()) {
      LatentCalls(s, calls).backward_weight();
    } else if (s.has_attention()) {
      project(s, Projection::qkv, GemmPass::weight_gradient, {}, calls);
    }
  }
  const std::int64_t parameters = trainable_layer(s);
  // Gradients are copied, as fp32, into the communication buffer.
  if (s.sharding.zero >= 3 && !sw.communication.gathers_in_place)
    calls.stream("copy gradients", parameters, 10);
  if (sw.memory.weight_gradient_bytes > 0)
    calls.stream("add gradients", parameters, sw.memory.weight_gradient_bytes);
}

}  // namespace

void framework_layer(const StageShape& s, LayerPass pass, std::int64_t window, bool both_gradients,
                     UnitWork& work) {
  const bool overlaps = s.overlap.tensor && both_gradients && !s.attention.latent();
  FrameworkCalls calls(s, work);
  AdapterCalls adapters(s, calls);
  layer_python(s, pass, calls);
  switch (pass) {
    case LayerPass::forward:
      forward(s, window, {}, calls);
      calls.run_alongside();
      if (s.mixture()) MixtureCalls(s, calls).launches(false);
      return calls.layer_launches(operators(s,
                                            layer_operators(s, false) + communication_operators(s) +
                                                norm_operators(s, false) +
                                                calls.cast_operators(2 * static_cast<int>(s.block.blocks)),
                                            true) +
                                  adapters.forward() + FrozenCalls::append(s, false, true, calls));
    case LayerPass::backward_input:
      backward_input(s, window, overlaps, calls);
      calls.run_alongside(true);
      if (s.mixture()) MixtureCalls(s, calls).launches(true);
      return calls.layer_launches(operators(s,
                                            0.75 * layer_operators(s, true) + communication_operators(s) +
                                                norm_operators(s, true) +
                                                calls.cast_operators(2 * static_cast<int>(s.block.blocks)),
                                            true) +
                                  adapters.backward_input() + FrozenCalls::append(s, true, true, calls));
    case LayerPass::backward_weight:
      backward_weight(s, !overlaps, calls);
      return calls.layer_launches(s.adapters.frozen() ? adapters.backward_weight()
                                                      : operators(s, 0.25 * layer_operators(s, true), false));
  }
}

void framework_recomputation(const StageShape& s, std::int64_t window, UnitWork& work) {
  const Software& sw = *s.software;
  FrameworkCalls calls(s, work);
  const double launched = operators(s, layer_operators(s, false) + communication_operators(s), true);
  if (s.recomputation.granularity == Recompute::full) {
    const bool stops_early = is_torchtitan_llama(s) || is_torchtitan_deepseek(s);
    forward(s, window, stops_early ? kNeeded : Wanted{}, calls);
    calls.run_alongside();
    if (s.mixture()) MixtureCalls(s, calls).launches(false);
    layer_python(s, LayerPass::forward, calls);
    // The checkpoint saves and restores random states.
    return calls.layer_launches(1.15 * (launched + AdapterCalls(s, calls).forward() +
                                        FrozenCalls::append(s, false, !stops_early, calls)));
  }
  if (s.recomputation.granularity != Recompute::selective) return;
  // Pointwise work again, and half of the products; attention's result is kept.
  if (sw.recomputation.selective_operators) {
    forward(s, window, not_kept(s), calls);
    calls.run_alongside();
    calls.layer_launches(launched);
  } else if (sw.recomputation.saves_by_name) {  // the last product's result is not read again
    const double fc1 = sw.recomputation.fc1 ? 1 : 0;
    forward(s, window,
            {sw.recomputation.attention,
             {0, 0, 0},
             sw.recomputation.projection ? 1.0 : 0,
             {fc1, fc1, fc1},
             0,
             Edges::none},
            calls);
    calls.run_alongside();
    calls.layer_launches(launched);
  } else {
    if (s.attention.unfused && s.recomputation.modules.core_attn) {
      attention_forward(s, window, calls);
      calls.layer_launches(6);
    }
    recompute_modules(s, calls);
  }
}

}  // namespace plumbline
