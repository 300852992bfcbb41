#include "bench/training/ends/distillation_loss.hpp"

namespace plumbline::training {

namespace {

/// In place, with statistics of every token.
NumberSum fused_loss(const RankResources& student, const VocabularyColumns& columns, std::uint32_t microbatch,
                     const Matrix& logits, const Matrix& teacher) {
  const TrainingContext& context = student.context;
  Operators& ops = context.operators;
  const Distillation loss{.temperature = context.config.distillation.temperature,
                          .reverse = context.config.distillation.kl == DistillationKl::reverse,
                          .lm_weight = context.config.distillation.lm_weight};
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
                                   sums, divergence, student.scaled_per_token());
}

/// Loss with the tensors of eager code, for published figures of such code. For one tensor rank, forward
/// divergence.
NumberSum unfused_loss(const RankResources& student, const VocabularyColumns& columns,
                       std::uint32_t microbatch, const Matrix& logits, const Matrix& teacher) {
  const TrainingContext& context = student.context;
  Operators& ops = context.operators;
  const double temperature = context.config.distillation.temperature;
  const double lm_weight = context.config.distillation.lm_weight;
  const Matrix targets = student.target_tokens(microbatch);
  const auto make = [&](const char* holder) {
    return context.make_fp32(Category::workspace, holder, logits.rows, logits.cols);
  };
  const auto divided = [&](const Matrix& x, const char* holder) {
    Tensor y = make(holder);
    ops.copy(x, y);
    ops.scale(y, 1 / temperature);
    return y;
  };
  Tensor teacher_fp32 = divided(teacher, "teacher logits in fp32");
  const Tensor student_fp32 = divided(logits, "student logits in fp32");
  Tensor log_s = make("log-softmax of the student");
  ops.softmax(student_fp32, columns.valid, true, log_s);
  Tensor p = make("softmax of the teacher");
  ops.softmax(teacher_fp32, columns.valid, false, p);
  NumberSum loss;
  {
    // Eager code makes the difference of two products; here one pass writes it, with memory for the two.
    const Tensor entropy = make("softmax times its logarithm");
    const Tensor product = make("softmax times log-softmax");
    const Tensor terms = make("pointwise divergence");
    loss.add(ops.divergence_terms(p, log_s, columns.valid, targets, terms), 1 - lm_weight);
  }
  Tensor log_gradient = make("gradient of the log-softmax");
  ops.copy(p, log_gradient);
  const Tensor gradient = make("gradient of the divergence");
  ops.log_softmax_backward(log_gradient, log_s, columns.valid, targets,
                           -(1 - lm_weight) / temperature * student.scaled_per_token(), gradient);
  teacher_fp32.reset();
  log_s.reset();
  p.reset();
  log_gradient.reset();
  if (lm_weight > 0) {
    ops.scale(student_fp32, temperature);
    loss.add(cross_entropy(student, columns, student.target_tokens(microbatch), student_fp32,
                           lm_weight * student.scaled_per_token()),
             lm_weight);
    ops.add(gradient, student_fp32, {}, gradient);
  }
  ops.copy(gradient, logits);
  return loss;
}

}  // namespace

NumberSum distillation_loss(const RankResources& student, const VocabularyColumns& columns,
                            std::uint32_t microbatch, const Matrix& logits, const Matrix& teacher) {
  const bool fused = student.context.config.distillation.loss == DistillationLoss::fused;
  return (fused ? fused_loss : unfused_loss)(student, columns, microbatch, logits, teacher);
}

}  // namespace plumbline::training
