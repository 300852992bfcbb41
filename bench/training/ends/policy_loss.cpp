#include "bench/training/ends/policy_loss.hpp"

#include <cmath>

namespace plumbline::training {
namespace {

struct Statistics {
  Tensor held;  // row_max, sums (2, T), entropies if wanted
  Matrix row_max, sums, entropies;
};

/// `more`: rows behind the sums.
Statistics reduced_statistics(const TrainingContext& context, const VocabularyColumns& columns,
                              const Matrix& targets, const Matrix& logits, bool entropy, std::int64_t more) {
  Operators& ops = context.operators;
  Statistics made;
  made.held =
      context.make_fp32(Category::workspace, "loss statistics", (entropy ? 4 : 3) + more, logits.rows);
  const Matrix all = made.held;
  made.row_max = all.row_range(0, 1);
  made.sums = all.row_range(1, 2);
  ops.cross_entropy_max(logits, columns.valid, made.row_max);
  context.reduce_over_tensor_ranks(made.row_max, ReduceOp::max);
  ops.cross_entropy_sums(logits, columns.valid, columns.first, targets, made.row_max, made.sums);
  if (entropy) {
    made.entropies = all.row_range(3, 1);
    ops.entropy_sums(logits, columns.valid, made.row_max, made.entropies);
  }
  context.reduce_over_tensor_ranks(all.row_range(1, entropy ? 3 : 2), ReduceOp::sum);
  return made;
}

PolicyLoss loss_of(const PolicyLossConfig& config) {
  return {.clip_low = config.clip_low,
          .clip_high = config.clip_high,
          .kl_coef = config.kl_coef,
          .kl = static_cast<int>(config.kl) + 1,
          .entropy_coef = config.entropy_coef};
}

}  // namespace

Number policy_loss(const TrainingContext& context, const VocabularyColumns& columns, const Matrix& targets,
                   const Matrix& tokens, const Matrix& logits, double scale) {
  constexpr std::int64_t kFactors = 3;
  const PolicyLoss loss = loss_of(context.config.reinforcement.loss);
  const Statistics of =
      reduced_statistics(context, columns, targets, logits, loss.entropy_coef != 0, kFactors);
  const Matrix factors = of.held.matrix().row_range(of.held.matrix().rows - kFactors, kFactors);
  Number sum = context.operators.policy_loss(targets, of.sums, of.entropies, tokens, loss, scale, factors);
  context.operators.policy_gradient(logits, columns.valid, columns.first, targets, of.row_max, factors);
  return sum;
}

namespace {

/// Values of a micro-batch, (1, T) fp32: of the tensor rank whose column is no padding.
Tensor reduced_values(const TrainingContext& context, const Matrix& logits) {
  Tensor values = context.make_fp32(Category::workspace, "loss statistics", 1, logits.rows);
  context.operators.copy(logits.reshaped(1, logits.rows), values);
  context.reduce_over_tensor_ranks(values, ReduceOp::sum);
  return values;
}

}  // namespace

Number value_loss(const TrainingContext& context, const VocabularyColumns& columns, const Matrix& targets,
                  const Matrix& tokens, const Matrix& logits, double scale) {
  const Tensor values = reduced_values(context, logits);
  const double clip = context.config.reinforcement.loss.value_clip;
  const auto own = static_cast<double>(columns.valid);  // a column of padding has no gradient
  return context.operators.value_loss(targets, values, tokens, clip, scale * own, logits);
}

std::vector<float> token_values(const TrainingContext& context, const VocabularyColumns& /*columns*/,
                                const Matrix& /*targets*/, const Matrix& logits) {
  const Tensor values = reduced_values(context, logits);
  if (context.config.machine.backend == Backend::emulated) return {};
  std::vector<float> found(static_cast<std::size_t>(logits.rows));
  context.operators.download(values, found.data());
  return found;
}

std::vector<float> log_probabilities(const TrainingContext& context, const VocabularyColumns& columns,
                                     const Matrix& targets, const Matrix& logits) {
  const Statistics of = reduced_statistics(context, columns, targets, logits, false, 0);
  if (context.config.machine.backend == Backend::emulated) return {};
  const auto count = static_cast<std::size_t>(logits.rows);
  std::vector<float> sums(2 * count);
  context.operators.download(of.sums, sums.data());
  std::vector<float> found(count);
  for (std::size_t t = 0; t < count; ++t)
    found[t] = static_cast<float>(sums[count + t] - std::log(static_cast<double>(sums[t])));
  return found;
}

}  // namespace plumbline::training
