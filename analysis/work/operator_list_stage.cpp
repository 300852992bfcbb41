// F, B, I and W of a stage, in parts that each use one unit of parameters.
#include <algorithm>

#include "analysis/work/action_parts.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

double e(const StageShape& s) {
  return static_cast<double>(s.e());
}

void norm_forward(const StageShape& s, CallList& list) {
  list.rows(s.layer_norm ? "layernorm_forward" : "rmsnorm_forward", s.rows * s.hidden, 2 * e(s), s.hidden);
}
void norm_backward(const StageShape& s, CallList& list) {
  list.rows(s.layer_norm ? "layernorm_backward" : "rmsnorm_backward", s.rows * s.hidden, 4 * e(s), s.hidden);
}
/// What a block adds to is its norm's output: its gradient goes there before the norm's.
void block_norm_backward(const StageShape& s, CallList& list) {
  if (s.normed_residual) list.memory("add", s.rows * s.hidden, 3 * e(s));
  norm_backward(s, list);
}

void bias_backward(const StageShape& s, CallList& list, bool has, std::int64_t elements) {
  if (has) list.memory("bias_backward", elements, e(s));
}
void rotate(const StageShape& s, CallList& list) {
  if (!s.rotary) return;
  list.rows("rope", s.tokens * s.q, 2 * e(s), s.head_dim);
  list.rows("rope", s.tokens * s.k, 2 * e(s), s.head_dim);
}

/// Of every query and key head.
void head_norm_forward(const StageShape& s, CallList& list) {
  if (!s.qk_norm) return;
  list.memory("head_norm_forward", s.tokens * s.q, 2 * e(s));
  list.memory("head_norm_forward", s.tokens * s.k, 2 * e(s));
  list.allocations(2);
}
void head_norm_backward(const StageShape& s, CallList& list) {
  if (!s.qk_norm) return;
  list.memory("head_norm_backward", s.tokens * s.q, 3 * e(s));
  list.memory("head_norm_backward", s.tokens * s.k, 3 * e(s));
}

/// Products of a layer's forward that read the stream, and that make what is added to it.
void gathered_linear(const StageShape& s, CallList& list, const char* label, std::int64_t out) {
  constexpr const char* kGather = "sequence all-gather forward";
  if (s.tensor_overlap)
    return list.linear_of_gathered(kGather, label, GemmPass::forward, out, s.hidden, false);
  list.gathered_operand(kGather);
  list.linear(label, GemmPass::forward, out, s.hidden);
}
void summed_linear(const StageShape& s, CallList& list, const char* label, std::int64_t in) {
  constexpr const char* kScatter = "sequence reduce-scatter forward";
  if (s.tensor_overlap) return list.linear_summed(kScatter, label, GemmPass::forward, s.hidden, in);
  list.linear(label, GemmPass::forward, s.hidden, in);
  list.sum_over_tensor_ranks("tensor all-reduce forward", kScatter);
}

std::int64_t layer_unit(const StageShape& s) {
  return padded_layer_unit(s);
}

/// fc1 and activation of a layer without experts.
void mlp_forward(const StageShape& s, CallList& list) {
  gathered_linear(s, list, "fc1", s.fc1);
  if (s.swiglu) list.memory("swiglu_forward", s.tokens * s.fc1, 1.5 * e(s));
  if (!s.swiglu) list.memory("gelu_forward", s.tokens * s.fc1, 2 * e(s));
  list.quantize(s.tokens * s.ffn);
}

/// One of a layer's norms, which selective recomputation repeats.
void norm_again(const StageShape& s, CallList& list) {
  norm_forward(s, list);
  list.allocations(1 + s.norm_rows);
}
/// Selective recomputation, before the backward of the feed-forward block and before that of the attention block.
void feed_forward_again(const StageShape& s, CallList& list) {
  const RecomputeModules& modules = s.recomputed;
  if (modules.layernorm) norm_again(s, list);
  if (s.mixture()) return list.mixture_again();
  if (!modules.mlp) return;
  mlp_forward(s, list);
  list.allocations(2);
}
void attention_block_again(const StageShape& s, CallList& list, std::int64_t window) {
  const RecomputeModules& modules = s.recomputed;
  if (modules.layernorm && s.layer_norms() > 1) norm_again(s, list);
  if (modules.mla_up_proj) {
    list.latent_up_projection(true);
    list.allocations(2);
  }
  if (modules.core_attn) list.attention(false, window);
}

/// When a group of layers is recomputed, its last layer stops at the activation output.
enum class Forward { first, again, again_to_activation };

void layer_forward(const StageShape& s, CallList& list, std::int64_t window, Forward forward) {
  norm_forward(s, list);
  list.quantize_stream();
  if (s.latent()) {
    list.latent_forward();
  } else {
    gathered_linear(s, list, "qkv", s.qkv());
    head_norm_forward(s, list);
    rotate(s, list);
    list.exchange_heads();
  }
  list.attention(false, window);
  list.quantize(s.tokens * s.attended());
  summed_linear(s, list, "projection", s.attended());
  list.residual_sum();
  if (s.layer_norms() > 1) {
    norm_forward(s, list);
    if (!s.mixture()) list.quantize_stream();
  }
  if (s.mixture()) {
    list.mixture_forward(forward != Forward::first);
  } else {
    mlp_forward(s, list);
  }
  list.allocations(6 + s.layer_norms() * (1 + s.norm_rows));
  if (forward == Forward::again_to_activation) return list.dropout_mask();
  if (s.mixture()) list.mixture_output();
  if (!s.mixture()) summed_linear(s, list, "fc2", s.ffn);
  list.residual_sum();
  list.allocations(1);
}

/// Which gradients an action computes.
struct Passes {
  bool input = true;
  bool weight = true;
};

void layer_backward(const StageShape& s, CallList& list, std::int64_t window, Passes passes) {
  const char* gather = "sequence all-gather backward";
  const char* scatter = "sequence reduce-scatter backward";
  const bool overlaps = s.tensor_overlap && passes.input;
  // Of the gradient of the stream, which is gathered.
  const auto gathered = [&](const char* label, std::int64_t in) {
    if (overlaps) {
      return list.linear_of_gathered(gather, label, GemmPass::input_gradient, s.hidden, in, passes.weight);
    }
    list.gathered_operand(gather);
  };
  const auto both = [&](const char* label, std::int64_t in) {
    if (passes.input && !overlaps) list.linear(label, GemmPass::input_gradient, s.hidden, in);
    if (passes.weight) list.linear(label, GemmPass::weight_gradient, s.hidden, in);
  };
  // Of a product that reads the stream, whose gradient is summed.
  const auto summed = [&](const char* label, std::int64_t out, bool bias) {
    const auto add_bias = [&] { bias_backward(s, list, bias, s.tokens * out); };
    if (overlaps && passes.weight) {
      return list.linear_backward_bulk(gather, scatter, label, out, s.hidden, add_bias);
    }
    if (overlaps) list.linear_summed(scatter, label, GemmPass::input_gradient, out, s.hidden);
    if (passes.input && !overlaps) {
      list.linear(label, GemmPass::input_gradient, out, s.hidden);
      list.sum_over_tensor_ranks("tensor all-reduce backward", scatter);
    }
    if (!passes.weight) return;
    list.gathered_operand(gather);
    list.linear(label, GemmPass::weight_gradient, out, s.hidden);
    add_bias();
  };
  if (passes.input) {
    feed_forward_again(s, list);
    list.dropout_backward(false);
  }
  if (s.mixture()) {
    list.mixture_backward(passes.input, passes.weight);
  } else {
    list.quantize_stream();
    gathered("fc2", s.ffn);
    both("fc2", s.ffn);
    bias_backward(s, list, passes.weight && s.linear_bias, s.rows * s.hidden);
    if (passes.input) {
      if (s.swiglu) list.memory("swiglu_backward", s.tokens * s.fc1, 2.5 * e(s));
      if (!s.swiglu) list.memory("gelu_backward", s.tokens * s.fc1, 3 * e(s));
    }
    list.quantize(s.tokens * s.fc1);
    summed("fc1", s.fc1, s.linear_bias);
  }
  if (passes.input) {
    if (s.layer_norms() > 1) block_norm_backward(s, list);
    attention_block_again(s, list, window);
    list.dropout_backward(false);
  }
  list.quantize_stream();
  gathered("projection", s.attended());
  if (passes.weight) list.quantize(s.tokens * s.attended());
  both("projection", s.attended());
  bias_backward(s, list, passes.weight && s.linear_bias, s.rows * s.hidden);
  if (passes.input) list.attention(true, window);
  if (s.latent()) {
    list.latent_backward(passes.input, passes.weight);
  } else {
    if (passes.input) {
      rotate(s, list);
      head_norm_backward(s, list);
    }
    list.quantize(s.tokens * s.qkv());
    summed("qkv", s.qkv(), s.qkv_bias);
  }
  if (passes.input) {
    if (s.layer_norms() == 1)
      list.memory("add", s.rows * s.hidden, 3 * e(s));  // both gradients of the norm's output
    block_norm_backward(s, list);
    list.allocations((s.swiglu ? 6 : 5) + (passes.weight ? 0 : s.parallel() ? 1 : 2));
  }
}

void scatter_embedded(const StageShape& s, CallList& list) {
  list.collective(CallKind::reduce_scatter, "embedding reduce-scatter", Group::tensor, s.tensor,
                  s.tokens * s.hidden, s.type);
}

void scale_embedded(const StageShape& s, CallList& list, std::int64_t elements) {
  if (s.scaled_embedding) list.memory("scale", elements, 2 * e(s));
}

void position_forward(const StageShape& s, WorkBuilder& builder) {
  if (s.positions == 0) return;
  builder.once({true, false}, padded_unit(s, s.positions * s.hidden), [&](CallList& list) {
    for (int table = 0; table < (s.block_positions ? 2 : 1); ++table)
      list.memory("position_forward", s.tokens * s.hidden, 3 * e(s));
    if (s.sequence_parallel) scatter_embedded(s, list);
  });
}

void embedding_forward(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.tokens * s.hidden;
  builder.once({true, false}, padded_vocabulary_unit(s), [&](CallList& list) {
    list.memory("embedding_forward", full, 2 * e(s));
    if (!s.sequence_parallel) list.tensor_all_reduce("embedding all-reduce", full, s.type);
    scale_embedded(s, list, full);
    if (s.sequence_parallel && s.positions == 0) scatter_embedded(s, list);
    list.allocations(s.sequence_parallel ? 2 : 1);
  });
  position_forward(s, builder);
}

/// What a first stage does after its tokens' rows are there, wherever they were looked up.
void embedded_forward(const StageShape& s, WorkBuilder& builder) {
  if (!s.embeds()) {
    builder.once({}, 0, [&](CallList& list) { scale_embedded(s, list, s.rows * s.hidden); });
    position_forward(s, builder);
  }
  builder.once({}, 0, [&](CallList& list) {
    if (s.embedding_norm) {
      norm_forward(s, list);
      list.allocations(1 + s.norm_rows);
    }
    list.drop_embedded();
  });
}

void copy_stream(const StageShape& s, CallList& list, std::int64_t width) {
  list.memory("copy", s.rows * width, 2 * e(s));
}
/// Joint messages are taken apart and put together.
void copy_joint_input(const StageShape& s, WorkBuilder& builder) {
  if (!s.distillation.joint || s.first) return;
  builder.once({}, 0, [&](CallList& list) { copy_stream(s, list, s.hidden); });
}
void copy_joint_output(const StageShape& s, WorkBuilder& builder) {
  if (!s.distillation.joint || s.last) return;
  builder.once({}, 0, [&](CallList& list) {
    copy_stream(s, list, s.distillation.teacher_hidden);
    copy_stream(s, list, s.distillation.student_hidden);
  });
}

/// Without the output layer: a vocabulary split over all ranks, or a teacher.
void final_norm_forward(const StageShape& s, WorkBuilder& builder) {
  builder.once({}, 0, [&](CallList& list) {
    norm_forward(s, list);
    list.allocations(1 + s.norm_rows);
  });
}

/// Division of the logits or their gradient by the lengths of the output layer's rows.
void divide_logits(const StageShape& s, CallList& list) {
  if (s.normed_output) list.memory("scale_columns", s.tokens * s.vocab, 2 * e(s));
}

void output_product(const StageShape& s, CallList& list) {
  list.gemm("output layer", GemmPass::forward, s.vocab, s.hidden);
  if (s.normed_output) list.memory("row_products", s.vocab * s.hidden, 2 * e(s));
  divide_logits(s, list);
}

void teacher_output(const StageShape& s, WorkBuilder& builder) {
  final_norm_forward(s, builder);
  if (s.distillation.hidden) return;
  builder.once({}, 0, [&](CallList& list) {
    list.gathered("sequence all-gather forward");
    output_product(s, list);
    list.allocations(1);
  });
}

void cross_entropy(const StageShape& s, CallList& list) {
  list.convert_logits();
  list.loss_pass("cross_entropy_max", 1);
  list.tensor_all_reduce("loss all-reduce", s.tokens, DType::fp32);
  list.loss_pass("cross_entropy_sums", 1);
  list.tensor_all_reduce("loss all-reduce", 2 * s.tokens, DType::fp32);
  list.loss_pass("cross_entropy_gradient", 2);
}

/// Modules share the output layer; behind the final norm where there are some.
void output_forward(const StageShape& s, WorkBuilder& builder) {
  const bool gathered = s.shared_output || (s.tied && s.own_modules() > 0);
  builder.once({true, false, gathered}, padded_vocabulary_unit(s), [&](CallList& list) {
    if (s.own_modules() == 0) norm_forward(s, list);
    for (std::int64_t i = 0; i <= s.own_modules(); ++i) {
      list.gathered("sequence all-gather forward");
      output_product(s, list);
    }
    if (s.distillation.on) {
      distillation_loss(s, list);
      list.allocations(2 + s.norm_rows);
      return;
    }
    for (std::int64_t i = 0; i <= s.own_modules(); ++i) cross_entropy(s, list);
    list.allocations(3 + s.norm_rows + 2 * s.own_modules());
  });
}

void position_backward(const StageShape& s, WorkBuilder& builder) {
  if (s.positions == 0) return;
  builder.once({false, true}, padded_unit(s, s.positions * s.hidden), [&](CallList& list) {
    const double traffic = e(s) + 2 * static_cast<double>(s.g());
    if (!s.block_positions) return list.memory("position_backward", s.tokens * s.hidden, traffic);
    for (int table = 0; table < 2; ++table) list.memory("embedding_backward", s.tokens * s.hidden, traffic);
  });
}

void embedding_backward(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.tokens * s.hidden;
  const double traffic = e(s) + 2 * static_cast<double>(s.g());
  builder.once({false, true}, padded_vocabulary_unit(s), [&](CallList& list) {
    list.gathered("embedding all-gather");
    list.memory("embedding_backward", full, traffic);
  });
  position_backward(s, builder);
}

/// The values of experts that are spread over ranks (ZeRO 3) are gathered with the others of their layer.
template <class Write>
std::size_t layer_part(WorkBuilder& builder, const StageShape& like, WorkBuilder::Kind kind,
                       std::int64_t unit, Write&& write) {
  const std::size_t part = builder.part(like, kind, unit, write);
  if (kind.values && like.zero >= 3 && like.exchanges_rows() && like.expert.copies > 1) {
    builder.work.parts[part].expert_gather =
        CallList::collective_call(CallKind::all_gather, "parameter all-gather", Group::expert_data,
                                  like.expert.copies, padded_expert_unit(like), like.type);
  }
  return part;
}

template <class Write>
std::size_t layer_part(WorkBuilder& builder, const StageShape& like, WorkBuilder::Kind kind, Write&& write) {
  return layer_part(builder, like, kind, layer_unit(like), write);
}

/// Of modules that predict further tokens (bench/training/mtp.md): what they look up.
void modules_embedding(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.tokens * s.hidden;
  builder.once({true, false, s.shared_lookup}, padded_vocabulary_unit(s), [&](CallList& list) {
    for (std::int64_t i = 0; i < s.own_modules(); ++i) {
      list.memory("embedding_forward", full, 2 * e(s));
      if (s.sequence_parallel) scatter_embedded(s, list);
      if (!s.sequence_parallel) list.tensor_all_reduce("embedding all-reduce", full, s.type);
      list.allocations(s.sequence_parallel ? 2 : 1);
    }
  });
}

/// Columns of the layer's input, of which every tensor rank makes its own; zeros elsewhere make a sum of them.
void join_forward(const StageShape& s, CallList& list) {
  norm_forward(s, list);
  norm_forward(s, list);
  list.gathered_wide("sequence all-gather forward", 2 * s.hidden);
  if (s.tensor > 1) {
    list.memory("fill", s.tokens * s.hidden, static_cast<double>(size_of(s.sum_type())), s.sum_type());
  }
  list.gemm("module input", GemmPass::forward, s.hidden / s.tensor, 2 * s.hidden);
  list.sum_over_tensor_ranks("tensor all-reduce forward", "sequence reduce-scatter forward");
  list.allocations(3);
}

void modules_forward(const StageShape& s, WorkBuilder& builder) {
  if (s.own_modules() == 0) return;
  final_norm_forward(s, builder);
  modules_embedding(s, builder);
  for (std::int64_t module = 0; module < s.own_modules(); ++module) {
    const StageShape like = s.like_layer(s.layers + module);
    builder.run(layer_part(builder, like, {true, false}, padded_module_unit(like),
                           [&](CallList& list) {
                             join_forward(like, list);
                             layer_forward(like, list, 0, Forward::first);
                             norm_forward(like, list);
                             list.allocations(1 + s.norm_rows);
                           }),
                1);
  }
}

void join_backward(const StageShape& s, CallList& list, Passes passes) {
  constexpr const char* kGather = "sequence all-gather backward";
  list.gathered(kGather);
  if (passes.input) {
    list.gemm("module input", GemmPass::input_gradient, s.hidden / s.tensor, 2 * s.hidden);
    list.sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward",
                               2 * s.hidden);
    list.allocations(1);
  }
  if (!passes.weight) return;
  list.gathered_wide(kGather, 2 * s.hidden);
  list.gemm("module input", GemmPass::weight_gradient, s.hidden / s.tensor, 2 * s.hidden);
}

/// Last to first.
void modules_backward(const StageShape& s, WorkBuilder& builder, Passes passes) {
  for (std::int64_t module = s.own_modules(); module-- > 0;) {
    const StageShape like = s.like_layer(s.layers + module);
    builder.run(layer_part(builder, like, {passes.input, passes.weight}, padded_module_unit(like),
                           [&](CallList& list) {
                             if (passes.input) norm_backward(like, list);
                             if (passes.input && s.recompute == Recompute::full)
                               layer_forward(like, list, 0, Forward::again_to_activation);
                             layer_backward(like, list, 0, passes);
                             join_backward(like, list, passes);
                           }),
                1);
    if (!passes.input) continue;
    builder.once({}, 0, [&](CallList& list) {
      norm_backward(s, list);
      norm_backward(s, list);
      list.allocations(2);
    });
    embedding_backward(s, builder);
  }
}

void output_backward(const StageShape& s, WorkBuilder& builder, Passes passes) {
  builder.once({passes.input, passes.weight}, padded_vocabulary_unit(s), [&](CallList& list) {
    for (std::int64_t i = 0; passes.input && i <= s.own_modules(); ++i) {
      list.convert_logits();
      divide_logits(s, list);
      list.gemm("output layer", GemmPass::input_gradient, s.vocab, s.hidden);
      list.sum_over_tensor_ranks("output layer all-reduce", "output layer reduce-scatter");
      list.allocations(2);
    }
    for (std::int64_t i = 0; passes.weight && i <= s.own_modules(); ++i) {
      list.gathered("sequence all-gather backward");
      list.gemm("output layer", GemmPass::weight_gradient, s.vocab, s.hidden);
      bias_backward(s, list, s.output_bias, s.tokens * s.vocab);
    }
  });
  modules_backward(s, builder, passes);
  if (passes.input) builder.once({}, 0, [&](CallList& list) { norm_backward(s, list); });
}

/// The final norm where the output layer is split over all ranks.
void final_norm_backward(const StageShape& s, WorkBuilder& builder) {
  builder.once({}, 0, [&](CallList& list) {
    if (s.e() < 4) list.memory("copy", s.tokens * s.hidden, 4 + e(s));  // dX, rounded
    norm_backward(s, list);
    list.allocations(s.e() < 4 ? 2 : 1);
  });
}

ActionWork forward_work(const StageShape& s, bool teacher, bool first = false) {
  WorkBuilder builder(s, first);
  copy_joint_input(s, builder);
  if (s.first) {
    if (s.embeds()) embedding_forward(s, builder);
    embedded_forward(s, builder);
  }
  const LayerParts layers(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, {true, false},
                      [&](CallList& list) { layer_forward(like, list, window, Forward::first); });
  });
  layers.run(builder, 0, s.layers);
  if (!teacher) modules_forward(s, builder);
  if (s.last) (teacher ? teacher_output : s.scores() ? output_forward : final_norm_forward)(s, builder);
  if (!teacher) copy_joint_output(s, builder);
  return std::move(builder.work);
}

/// The layers of B or I, last to first. With full recomputation each group, last first, is run forward again
/// before its layers' backward; its last layer's two uses are one.
void backward_layers(const StageShape& s, WorkBuilder& builder, Passes passes) {
  const WorkBuilder::Kind kind{passes.input, passes.weight};
  const LayerParts plain(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, kind,
                      [&](CallList& list) { layer_backward(like, list, window, passes); });
  });
  if (s.recompute != Recompute::full) return plain.run_descending(builder, 0, s.layers);
  const LayerParts again(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, {true, false},
                      [&](CallList& list) { layer_forward(like, list, window, Forward::again); });
  });
  const LayerParts turn(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, kind, [&](CallList& list) {
      layer_forward(like, list, window, Forward::again_to_activation);
      layer_backward(like, list, window, passes);
    });
  });
  const std::int64_t size = s.recompute_layers;
  for (std::int64_t end = s.layers; end > 0;) {
    const std::int64_t in_group = end % size == 0 ? size : end % size;
    const std::int64_t first = end - in_group;
    again.run(builder, first, end - 1);
    turn.run(builder, end - 1, end);
    plain.run_descending(builder, first, end - 1);
    end -= in_group;
  }
}

ActionWork backward_work(const StageShape& s, Passes passes) {
  WorkBuilder builder(s);
  if (passes.input && s.distillation.joint && !s.last) {
    builder.once({}, 0, [&](CallList& list) { copy_stream(s, list, s.hidden); });
  }
  if (s.scores()) output_backward(s, builder, passes);
  if (s.last && !s.scores() && passes.input) final_norm_backward(s, builder);
  if (passes.input) {
    backward_layers(s, builder, passes);
  } else {
    // Weight gradients have no attention.
    const LayerParts layers(
        s,
        [&](const StageShape& like, std::int64_t) {
          return layer_part(builder, like, {false, true},
                            [&](CallList& list) { layer_backward(like, list, 0, passes); });
        },
        false);
    layers.run_descending(builder, 0, s.layers);
  }
  if (s.first && passes.input) {
    builder.once({}, 0, [&](CallList& list) {
      list.dropout_backward(true);
      if (s.embedding_norm) {
        norm_backward(s, list);
        list.allocations(1);
      }
      scale_embedded(s, list, s.rows * s.hidden);
    });
    (s.embeds() ? embedding_backward : position_backward)(s, builder);
  }
  if (passes.input) copy_joint_input(s, builder);
  return std::move(builder.work);
}

}  // namespace

ActionWork first_forward_work(const StageShape& shape) {
  return forward_work(shape, false, true);
}

ActionWork work_of(const StageShape& shape, ActionType type) {
  if (shape.framework != nullptr) return framework_work(shape, type);
  if (type == ActionType::forward) return forward_work(shape, false);
  if (type == ActionType::teacher_forward) return forward_work(shape, true);
  if (type == ActionType::backward) return backward_work(shape, {true, true});
  if (type == ActionType::backward_input) return backward_work(shape, {true, false});
  if (type == ActionType::backward_weight) return backward_work(shape, {false, true});
  if (type >= ActionType::vocab_forward && type <= ActionType::input_backward) {
    return vocabulary_work(shape, type);
  }
  throw InputError("operators: " + std::string(name_of(type)) +
                   " is no pass of a stage; expected F, B, I, W, TF, IF, S, T or IB");
}

}  // namespace plumbline
