#include "bench/training/distillation_loss.hpp"

namespace plumbline::training {

double distillation_loss(const RankResources& student, const VocabularyColumns& columns,
                         std::uint32_t microbatch, const Matrix& logits, const Matrix& teacher) {
  const TrainingContext& context = student.context;
  Operators& ops = context.operators;
  const Distillation loss{.temperature = context.config.distillation_temperature,
                          .reverse = context.config.distillation_kl == DistillationKl::reverse,
                          .lm_weight = context.config.distillation_lm_weight};
  const Tensor statistics =
      context.make_fp32(Category::workspace, "loss statistics", 7, context.shape.tokens);
  const Matrix row_max = statistics.matrix().row_range(0, 2);
  const Matrix sums = statistics.matrix().row_range(2, 4);
  const Matrix divergence = statistics.matrix().row_range(6, 1);
  const Matrix targets = student.target_tokens(microbatch);
  ops.cross_entropy_max(logits, columns.valid, row_max.row_range(0, 1));
  ops.cross_entropy_max(teacher, columns.valid, row_max.row_range(1, 1));
  context.reduce_over_tensor_ranks(row_max, ReduceOp::max);
  ops.distillation_sums(logits, teacher, columns.valid, columns.first, targets, loss.temperature, row_max,
                        sums);
  context.reduce_over_tensor_ranks(sums, ReduceOp::sum);
  ops.distillation_divergence(logits, teacher, columns.valid, loss, row_max, sums, divergence);
  context.reduce_over_tensor_ranks(divergence, ReduceOp::sum);
  return ops.distillation_gradient(logits, teacher, columns.valid, columns.first, targets, loss, row_max,
                                   sums, divergence, student.per_token());
}

}  // namespace plumbline::training
