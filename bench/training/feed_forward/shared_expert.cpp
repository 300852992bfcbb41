#include "bench/training/feed_forward/shared_expert.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"

namespace plumbline::training {
namespace {

/// Of the gate's product with every token. Leaves the activation without weights, and in `dact` the gradient of what is
/// without.
void gate_gradient(const TrainingContext& context, const Matrix& dact, Category category,
                   SharedExpert& shared) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  shared.gate_gradient = context.make(category, "gradient of the shared expert's gate", shape.tokens, 1);
  const Tensor products = context.make_fp32(kPassing, "gradient of shared weights", 2, shape.tokens);
  const Matrix dweights = products.matrix().row_range(0, 1);
  const std::int64_t elements = dact.elements();
  activation_forward(context, shared.fc1, shared.activation);
  ops.row_products(dact.reshaped(1, elements), shared.activation.matrix().reshaped(1, elements), 0,
                   shape.shared, products);
  ops.scale_rows(dact, shared.weights, dact);
  context.reduce_over_tensor_ranks(dweights, ReduceOp::sum);
  ops.sigmoid_backward(dweights, shared.weights, dweights);
  ops.copy(dweights, shared.gate_gradient.matrix().reshaped(1, shape.tokens));
}

}  // namespace

void shared_expert_forward(const TrainingContext& context, const MixtureMatrices& weights, const Matrix& x,
                           SharedExpert& shared) {
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return;
  const bool gated = context.model().mixture.shared_gated;
  if (gated)
    shared.weights = context.make_fp32(context.kept, "layer weights of the shared expert", 1, shape.tokens);
  shared.fc1 = context.make(context.kept, "layer fc1 of the shared expert", shape.tokens, 2 * shape.shared);
  if (gated) {
    context.operators.gemm({.a = x,
                            .b = weights.shared_gate,
                            .c = shared.weights.matrix().reshaped(shape.tokens, 1),
                            .b_transposed = true});
    context.operators.sigmoid_forward(shared.weights, shared.weights);
  }
  context.operators.gemm({.a = x, .b = weights.shared_fc1, .c = shared.fc1, .b_transposed = true});
}

void shared_expert_activation(const TrainingContext& context, SharedExpert& shared) {
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return;
  shared.activation =
      context.make(context.kept, "layer activation of the shared expert", shape.tokens, shape.shared);
  activation_forward(context, shared.fc1, shared.activation);
  if (shared.weights) context.operators.scale_rows(shared.activation, shared.weights, shared.activation);
}

void add_shared_output(const TrainingContext& context, const MixtureMatrices& weights,
                       const SharedExpert& shared, const Matrix& to) {
  if (context.shape.shared == 0) return;
  context.operators.gemm(
      {.a = shared.activation, .b = weights.shared_fc2, .c = to, .b_transposed = true, .accumulate = true});
}

Tensor shared_activation_gradient(const TrainingContext& context, const MixtureMatrices& weights,
                                  const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return {};
  Tensor dact =
      context.make(kPassing, "gradient of the shared expert's activation", shape.tokens, shape.shared);
  context.operators.gemm({.a = dy, .b = weights.shared_fc2, .c = dact});
  return dact;
}

void shared_gradients(const TrainingContext& context, Tensor dact, Category category, bool kept,
                      SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  const bool gated = static_cast<bool>(shared.weights);
  if (gated) gate_gradient(context, dact, category, shared);
  if (!kept) {
    shared.activation.reset();
  } else if (gated) {
    context.operators.scale_rows(shared.activation, shared.weights, shared.activation);
  }
  shared.fc1_gradient = activation_backward(context, std::move(dact), shared.fc1, category);
  shared.fc1.reset();
  shared.weights.reset();
}

void add_shared_input_gradient(const TrainingContext& context, const MixtureMatrices& weights,
                               const SharedExpert& shared, const Matrix& to) {
  if (context.shape.shared == 0) return;
  context.operators.gemm({.a = shared.fc1_gradient, .b = weights.shared_fc1, .c = to, .accumulate = true});
}

void add_gate_input_gradient(const TrainingContext& context, const MixtureMatrices& weights,
                             const SharedExpert& shared, const Matrix& dx) {
  if (!shared.gate_gradient) return;
  const std::int64_t first = context.sequence_parallel ? context.tensor_rank() * dx.rows : 0;
  context.operators.gemm({.a = shared.gate_gradient.matrix().row_range(first, dx.rows),
                          .b = weights.shared_gate,
                          .c = dx,
                          .accumulate = true});
}

void shared_output_weight(const TrainingContext& context, const MixtureMatrices& dweights, const Matrix& dy,
                          const SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  context.operators.gemm(
      {.a = dy, .b = shared.activation, .c = dweights.shared_fc2, .a_transposed = true, .accumulate = true});
}

void shared_input_weight(const TrainingContext& context, const MixtureMatrices& dweights, const Matrix& x,
                         const SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  context.operators.gemm(
      {.a = shared.fc1_gradient, .b = x, .c = dweights.shared_fc1, .a_transposed = true, .accumulate = true});
  if (!shared.gate_gradient) return;
  context.operators.gemm({.a = shared.gate_gradient,
                          .b = x,
                          .c = dweights.shared_gate,
                          .a_transposed = true,
                          .accumulate = true});
}

}  // namespace plumbline::training
