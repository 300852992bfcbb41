#include "bench/training/ends/fp32_logits.hpp"

namespace plumbline::training {

Tensor fp32_copy(const TrainingContext& context, const Matrix& logits) {
  Tensor wide = context.make_fp32(Category::logits, "fp32 logits", context.shape.tokens, context.outputs());
  context.operators.copy(logits, wide);
  return wide;
}

Tensor rounded_logits(const TrainingContext& context, Category category, const char* holder,
                      const Matrix& logits) {
  Tensor rounded = context.make(category, holder, context.shape.tokens, context.outputs());
  context.operators.copy(logits, rounded);
  return rounded;
}

void round_logits_gradient(const TrainingContext& context, Tensor& logits) {
  logits = rounded_logits(context, Category::logits, "gradient of the logits", logits);
}

}  // namespace plumbline::training
