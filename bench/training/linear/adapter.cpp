#include "bench/training/linear/adapter.hpp"

namespace plumbline::training {
namespace {

/// s·x·Wᵀ or s·x·W (T, r).
Tensor narrow(const TrainingContext& context, const Matrix& x, const Matrix& weight, bool transposed,
              const Adapter& adapter, const char* holder) {
  Tensor features = context.make(Category::workspace, holder, x.rows, adapter.a.rows);
  context.operators.gemm({.a = x, .b = weight, .c = features, .b_transposed = transposed});
  if (adapter.scale != 1) context.operators.scale(features, adapter.scale);
  return features;
}

Tensor features_of(const TrainingContext& context, const Matrix& x, const Adapter& adapter) {
  return narrow(context, x, adapter.a, true, adapter, "adapter features");
}

}  // namespace

void adapt(const TrainingContext& context, const Matrix& x, const Adapter& adapter, const Matrix& y) {
  if (adapter.empty()) return;
  const Tensor features = features_of(context, x, adapter);
  context.operators.gemm({.a = features, .b = adapter.b, .c = y, .b_transposed = true, .accumulate = true});
}

Tensor feature_gradient(const TrainingContext& context, const Matrix& dy, const Adapter& adapter) {
  return narrow(context, dy, adapter.b, false, adapter, "gradient of adapter features");
}

void adapt_input_gradient(const TrainingContext& context, const Matrix& features, const Adapter& adapter,
                          const Matrix& dx) {
  context.operators.gemm({.a = features, .b = adapter.a, .c = dx, .accumulate = true});
}

void adapter_gradients(const TrainingContext& context, const Matrix& dy, const Matrix& x,
                       const Adapter& adapter, Tensor features, const Adapter& gradient) {
  Operators& operators = context.operators;
  operators.gemm({.a = features, .b = x, .c = gradient.a, .a_transposed = true, .accumulate = true});
  features.reset();
  const Tensor again = features_of(context, x, adapter);
  operators.gemm({.a = dy, .b = again, .c = gradient.b, .a_transposed = true, .accumulate = true});
}

}  // namespace plumbline::training
