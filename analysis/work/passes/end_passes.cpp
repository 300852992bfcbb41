#include "analysis/work/passes/end_passes.hpp"

#include "analysis/work/parameter_units.hpp"

namespace plumbline::passes {
namespace {

void position_forward(const StageShape& s, WorkBuilder& builder) {
  if (s.ends.positions == 0) return;
  builder.once({true, false}, padded_unit(s, s.ends.positions * s.stream.hidden), [&](CallList& list) {
    for (int table = 0; table < (s.ends.block_positions ? 2 : 1); ++table)
      list.memory("position_forward", s.stream.tokens * s.stream.hidden, 3 * e(s));
    if (s.sharding.sequence_parallel && s.embeds()) scatter_embedded(s, list);
  });
}

/// Division of the logits or their gradient by the lengths of the output layer's rows.
void divide_logits(const StageShape& s, CallList& list) {
  if (s.ends.normed_output) list.memory("scale_columns", s.stream.tokens * s.ends.outputs, 2 * e(s));
}

void cross_entropy(const StageShape& s, CallList& list) {
  list.convert_logits();
  list.loss_pass("cross_entropy_max", 1);
  list.tensor_all_reduce("loss all-reduce", s.stream.tokens, DType::fp32);
  list.loss_pass("cross_entropy_sums", 1);
  list.tensor_all_reduce("loss all-reduce", 2 * s.stream.tokens, DType::fp32);
  list.loss_pass("cross_entropy_gradient", 2);
}

/// A critic's, of values in fp32 and four fp32 numbers per token (bench/training/reinforcement/README.md).
void value_loss(const StageShape& s, CallList& list) {
  const DType type = s.ends.loss_in_fp32 ? DType::fp32 : s.numerics.type;
  const auto e = static_cast<double>(size_of(type));
  list.convert_logits();
  list.memory("copy", s.stream.tokens, 4 + e, DType::fp32);
  list.tensor_all_reduce("loss all-reduce", s.stream.tokens, DType::fp32);
  list.memory("cross_entropy_gradient", 4 * s.stream.tokens, (4 + 4 * 4 + e) / 4, type);
}

void token_loss(const StageShape& s, CallList& list) {
  s.ends.scalar_head ? value_loss(s, list) : cross_entropy(s, list);
}

}  // namespace

void output_product(const StageShape& s, CallList& list) {
  list.gemm("output layer", GemmPass::forward, s.ends.outputs, s.stream.hidden);
  if (s.ends.normed_output) list.memory("row_products", s.ends.outputs * s.stream.hidden, 2 * e(s));
  divide_logits(s, list);
}

void scatter_embedded(const StageShape& s, CallList& list) {
  list.collective(CallKind::reduce_scatter, "embedding reduce-scatter", Group::tensor, s.sharding.tensor,
                  s.stream.tokens * s.stream.hidden, s.numerics.type);
}

void scale_embedded(const StageShape& s, CallList& list, std::int64_t elements) {
  if (s.ends.scaled_embedding) list.memory("scale", elements, 2 * e(s));
}

void embedding_forward(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.stream.tokens * s.stream.hidden;
  builder.once({true, false}, padded_vocabulary_unit(s), [&](CallList& list) {
    list.memory("embedding_forward", full, 2 * e(s));
    if (!s.sharding.sequence_parallel) list.tensor_all_reduce("embedding all-reduce", full, s.numerics.type);
    scale_embedded(s, list, full);
    if (s.sharding.sequence_parallel && s.ends.positions == 0) scatter_embedded(s, list);
    list.allocations(s.sharding.sequence_parallel ? 2 : 1);
  });
  position_forward(s, builder);
}

void embedded_forward(const StageShape& s, WorkBuilder& builder) {
  if (!s.embeds()) {
    builder.once({}, 0, [&](CallList& list) { scale_embedded(s, list, s.stream.tokens * s.stream.hidden); });
    position_forward(s, builder);
  }
  builder.once({}, 0, [&](CallList& list) {
    if (!s.embeds() && s.sharding.sequence_parallel) {  // the rank's rows of all
      copy_stream(s, list, s.stream.hidden);
      list.allocations(1);
    }
    if (s.ends.embedding_norm) {
      norm_forward(s, list);
      list.allocations(1 + s.block.norm_rows);
    }
    list.drop_embedded();
  });
}

void copy_stream(const StageShape& s, CallList& list, std::int64_t width) {
  list.memory("copy", s.stream.rows * width, 2 * e(s));
}

void copy_joint_input(const StageShape& s, WorkBuilder& builder) {
  if (!s.distillation.joint || s.place.first) return;
  builder.once({}, 0, [&](CallList& list) { copy_stream(s, list, s.stream.hidden); });
}

void copy_joint_output(const StageShape& s, WorkBuilder& builder) {
  if (!s.distillation.joint || s.place.last) return;
  builder.once({}, 0, [&](CallList& list) {
    copy_stream(s, list, s.distillation.teacher_hidden);
    copy_stream(s, list, s.distillation.student_hidden);
  });
}

void multiply_logits(const StageShape& s, CallList& list) {
  if (s.ends.scaled_logits) list.memory("scale", s.stream.rows * s.stream.hidden, 2 * e(s));
}

void final_norm_forward(const StageShape& s, WorkBuilder& builder) {
  builder.once({}, 0, [&](CallList& list) {
    norm_forward(s, list);
    multiply_logits(s, list);
    list.allocations(1 + s.block.norm_rows);
    if (s.vocabulary.split) list.gathered("sequence all-gather forward");
  });
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

void output_forward(const StageShape& s, WorkBuilder& builder) {
  const bool gathered = s.ends.shared_output || (s.ends.tied && s.own_modules() > 0);
  builder.once({true, false, gathered}, padded_output_unit(s), [&](CallList& list) {
    if (s.own_modules() == 0) {
      norm_forward(s, list);
      multiply_logits(s, list);
    }
    for (std::int64_t i = 0; i <= s.own_modules(); ++i) {
      list.gathered("sequence all-gather forward");
      output_product(s, list);
    }
    if (s.distillation.on) {
      distillation_loss(s, list);
      list.allocations(2 + s.block.norm_rows);
      return;
    }
    for (std::int64_t i = 0; i <= s.own_modules(); ++i) token_loss(s, list);
    list.allocations(3 + s.block.norm_rows + 2 * s.own_modules());
  });
}

void position_backward(const StageShape& s, WorkBuilder& builder) {
  if (s.ends.positions == 0) return;
  builder.once({false, true}, padded_unit(s, s.ends.positions * s.stream.hidden), [&](CallList& list) {
    if (s.adapters.own) return;  // frozen
    const double traffic = e(s) + 2 * static_cast<double>(s.numerics.g());
    if (!s.ends.block_positions)
      return list.memory("position_backward", s.stream.tokens * s.stream.hidden, traffic);
    for (int table = 0; table < 2; ++table)
      list.memory("embedding_backward", s.stream.tokens * s.stream.hidden, traffic);
  });
}

void embedding_backward(const StageShape& s, WorkBuilder& builder) {
  const std::int64_t full = s.stream.tokens * s.stream.hidden;
  const double traffic = e(s) + 2 * static_cast<double>(s.numerics.g());
  builder.once({false, true}, padded_vocabulary_unit(s), [&](CallList& list) {
    if (s.adapters.own) return;  // frozen
    list.gathered("embedding all-gather");
    list.memory("embedding_backward", full, traffic);
  });
  position_backward(s, builder);
}

void output_gradients(const StageShape& s, WorkBuilder& builder, Passes passes) {
  builder.once({passes.input, passes.weight}, padded_output_unit(s), [&](CallList& list) {
    for (std::int64_t i = 0; passes.input && i <= s.own_modules(); ++i) {
      list.convert_logits();
      divide_logits(s, list);
      list.gemm("output layer", GemmPass::input_gradient, s.ends.outputs, s.stream.hidden);
      list.sum_over_tensor_ranks("output layer all-reduce", "output layer reduce-scatter");
      list.allocations(2);
    }
    for (std::int64_t i = 0; passes.weight && !s.adapters.own && i <= s.own_modules(); ++i) {
      list.gathered("sequence all-gather backward");
      list.gemm("output layer", GemmPass::weight_gradient, s.ends.outputs, s.stream.hidden);
      bias_backward(s, list, s.ends.output_bias, s.stream.tokens * s.ends.outputs);
    }
  });
}

void final_norm_backward(const StageShape& s, WorkBuilder& builder) {
  builder.once({}, 0, [&](CallList& list) {
    // dX, rounded; with sequence parallelism the rank's rows of it
    const bool copies = s.numerics.e() < 4 || s.sharding.sequence_parallel;
    if (copies) list.memory("copy", s.stream.rows * s.stream.hidden, 4 + e(s));
    multiply_logits(s, list);
    norm_backward(s, list);
    list.allocations(copies ? 2 : 1);
  });
}

}  // namespace plumbline::passes
