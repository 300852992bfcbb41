#include "bench/training/linear/adapter.hpp"

namespace plumbline::training {
namespace {

/// `visit(columns of y, rows of b, columns of features)` for each A.
template <class Visit>
void for_each_joined(const Adapter& adapter, const Matrix& y, const Matrix& b, const Matrix& features,
                     const Visit& visit) {
  std::int64_t row = 0;
  std::int64_t feature = 0;
  for (const std::int64_t rows : adapter.joined) {
    visit(y.columns(row, rows), b.row_range(row, rows), features.columns(feature, b.cols));
    row += rows;
    feature += b.cols;
  }
}

/// s·x·Aᵀ (T, n·r).
Tensor features_of(const TrainingContext& context, const Matrix& x, const Adapter& adapter) {
  Tensor features = context.make(Category::workspace, "adapter features", x.rows, adapter.a.rows);
  context.operators.gemm({.a = x, .b = adapter.a, .c = features, .b_transposed = true});
  if (adapter.scale != 1) context.operators.scale(features, adapter.scale);
  return features;
}

}  // namespace

void adapt(const TrainingContext& context, const Matrix& x, const Adapter& adapter, const Matrix& y) {
  if (adapter.empty()) return;
  const Tensor features = features_of(context, x, adapter);
  for_each_joined(
      adapter, y, adapter.b, features, [&](const Matrix& part, const Matrix& b, const Matrix& own) {
        context.operators.gemm({.a = own, .b = b, .c = part, .b_transposed = true, .accumulate = true});
      });
}

Tensor feature_gradient(const TrainingContext& context, const Matrix& dy, const Adapter& adapter) {
  Tensor features =
      context.make(Category::workspace, "gradient of adapter features", dy.rows, adapter.a.rows);
  for_each_joined(adapter, dy, adapter.b, features,
                  [&](const Matrix& part, const Matrix& b, const Matrix& own) {
                    context.operators.gemm({.a = part, .b = b, .c = own});
                  });
  if (adapter.scale != 1) context.operators.scale(features, adapter.scale);
  return features;
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
  for_each_joined(adapter, dy, gradient.b, again,
                  [&](const Matrix& part, const Matrix& db, const Matrix& own) {
                    operators.gemm({.a = part, .b = own, .c = db, .a_transposed = true, .accumulate = true});
                  });
}

}  // namespace plumbline::training
