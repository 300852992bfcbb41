#include "bench/training/layer/result_norm.hpp"

#include "bench/training/layer/norm.hpp"

namespace plumbline::training {

Matrix result_place(const TrainingContext& context, NormedResult& saved, const Matrix& sum) {
  if (!norms_results(context)) return sum;
  saved.result = context.make_stream(context.kept, "layer result");
  return saved.result;
}

void result_norm_forward(const TrainingContext& context, const NormVectors& norm, NormedResult& saved,
                         const Matrix& sum) {
  if (!saved.result) return;
  const LayerWidths& shape = context.shape;
  saved.stats = context.make_fp32(context.kept, "layer result statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.result, norm.weight, norm.bias, sum, saved.stats);
}

Tensor result_gradient(const TrainingContext& context, const MicrobatchDropout& dropout,
                       const NormVectors& norm, const NormVectors& gradients, NormedResult& saved,
                       Tensor& mask, const Matrix& gradient, Category category) {
  if (!saved.result) return dropout.backward(gradient, mask, category);
  Tensor of_result = context.make_stream(category, "gradient of the result");
  norm_backward(context, gradient, saved.result, norm.weight, saved.stats, {}, of_result, gradients.weight,
                gradients.bias);
  saved = NormedResult();
  return of_result;
}

}  // namespace plumbline::training
