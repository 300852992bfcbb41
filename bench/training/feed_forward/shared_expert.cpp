#include "bench/training/feed_forward/shared_expert.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"

namespace plumbline::training {
namespace {

/// Gradient of the gate's product with every token. Leaves the activation without weights unless it is
/// quantized, and the gradient of the unweighted activation in `dact`.
void gate_gradient(const TrainingContext& context, const Matrix& dact, Category category,
                   SharedExpert& shared) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  shared.gate_gradient = context.make(category, "gradient of the shared expert's gate", shape.tokens, 1);
  const Tensor products = context.make_fp32(kPassing, "gradient of shared weights", 2, shape.tokens);
  const Matrix dweights = products.matrix().row_range(0, 1);
  const std::int64_t elements = dact.elements();
  Tensor wide;
  if (shared.activation.quantized())
    wide = context.make(kPassing, "shared activation without weights", dact.rows, dact.cols);
  const Matrix activation = wide ? wide.matrix() : shared.activation.values();
  activation_forward(context, shared.fc1, activation);
  ops.row_products(dact.reshaped(1, elements), activation.reshaped(1, elements), 0, shape.shared, products);
  ops.scale_rows(dact, shared.weights, dact);
  context.reduce_over_tensor_ranks(dweights, ReduceOp::sum);
  ops.sigmoid_backward(dweights, shared.weights, dweights);
  ops.copy(dweights, shared.gate_gradient.matrix().reshaped(1, shape.tokens));
}

}  // namespace

void shared_expert_forward(const TrainingContext& context, const MixtureWeights& weights, const Matrix& x,
                           SharedExpert& shared) {
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return;
  const bool gated = context.model().mixture.shared_gated;
  if (gated)
    shared.weights = context.make_fp32(context.kept, "layer weights of the shared expert", 1, shape.tokens);
  shared.fc1 = context.make(context.kept, "layer fc1 of the shared expert", shape.tokens, 2 * shape.shared);
  if (gated) {
    context.operators.gemm({.a = x,
                            .b = weights.values.shared_gate,
                            .c = shared.weights.matrix().reshaped(shape.tokens, 1),
                            .b_transposed = true});
    context.operators.sigmoid_forward(shared.weights, shared.weights);
  }
  const LinearOperand input = weights.fp8.shared_fc1.input.read(x, "quantized input of the shared expert");
  linear(context, input, weights.shared_fc1(), {}, shared.fc1);
}

void shared_expert_activation(const TrainingContext& context, const Fp8Mixture& fp8, SharedExpert& shared) {
  constexpr const char* kHolder = "layer activation of the shared expert";
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return;
  const Fp8Slot& slot = fp8.shared_fc2.input;
  Tensor wide = context.make(slot.category_of_wide(context.kept), kHolder, shape.tokens, shape.shared);
  activation_forward(context, shared.fc1, wide);
  if (shared.weights) context.operators.scale_rows(wide, shared.weights, wide);
  shared.activation = slot.keep(std::move(wide), context.kept, kHolder);
}

void shared_output(const TrainingContext& context, const MixtureWeights& weights, const SharedExpert& shared,
                   const Matrix& to, bool accumulate) {
  if (context.shape.shared == 0) return;
  LinearProduct product = forward_product(shared.activation, weights.shared_fc2(), to);
  product.gemm.accumulate = accumulate;
  context.operators.gemm(product.gemm);
}

LinearOperand shared_output_gradient(const TrainingContext& context, const Fp8Mixture& fp8,
                                     const Matrix& dy) {
  if (context.shape.shared == 0) return LinearOperand(dy);
  return fp8.shared_fc2.gradient.read(dy, "quantized gradient of the shared expert");
}

Tensor shared_activation_gradient(const TrainingContext& context, const MixtureWeights& weights,
                                  const LinearOperand& dy) {
  const LayerWidths& shape = context.shape;
  if (shape.shared == 0) return {};
  Tensor dact =
      context.make(kPassing, "gradient of the shared expert's activation", shape.tokens, shape.shared);
  linear_input_gradient(context, dy, weights.shared_fc2(), dact);
  return dact;
}

void shared_gradients(const TrainingContext& context, const Fp8Mixture& fp8, Tensor dact, Category category,
                      bool kept, SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  const Fp8Slot& slot = fp8.shared_fc1.gradient;
  const bool gated = static_cast<bool>(shared.weights);
  if (gated) gate_gradient(context, dact, category, shared);
  if (!kept) {
    shared.activation.reset();
  } else if (gated && !shared.activation.quantized()) {
    const Matrix& activation = shared.activation.values();
    context.operators.scale_rows(activation, shared.weights, activation);
  }
  Tensor dfc1 = activation_backward(context, std::move(dact), shared.fc1, slot.category_of_wide(category));
  shared.fc1_gradient = slot.keep(std::move(dfc1), category, "gradient of the shared expert's fc1");
  shared.fc1.reset();
  shared.weights.reset();
}

void shared_input_gradient(const TrainingContext& context, const MixtureWeights& weights,
                           const SharedExpert& shared, const Matrix& to, bool accumulate) {
  if (context.shape.shared == 0) return;
  LinearProduct product = input_gradient_product(shared.fc1_gradient, weights.shared_fc1(), to);
  product.gemm.accumulate = accumulate;
  context.operators.gemm(product.gemm);
}

void add_gate_input_gradient(const TrainingContext& context, const MixtureWeights& weights,
                             const SharedExpert& shared, const Matrix& dx) {
  if (!shared.gate_gradient) return;
  const std::int64_t first = context.sequence_parallel ? context.tensor_rank() * dx.rows : 0;
  context.operators.gemm({.a = shared.gate_gradient.matrix().row_range(first, dx.rows),
                          .b = weights.values.shared_gate,
                          .c = dx,
                          .accumulate = true});
}

void shared_output_weight(const TrainingContext& context, const MixtureMatrices& dweights,
                          const LinearOperand& dy, const SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  linear_weight_gradient(context, dy, shared.activation, dweights.shared_fc2);
}

void shared_input_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                         const MixtureMatrices& dweights, const Matrix& x, const SharedExpert& shared) {
  if (context.shape.shared == 0) return;
  {
    const LinearOperand input = fp8.shared_fc1.input.read(x, "quantized input of the shared expert");
    linear_weight_gradient(context, shared.fc1_gradient, input, dweights.shared_fc1);
  }
  if (!shared.gate_gradient) return;
  context.operators.gemm({.a = shared.gate_gradient,
                          .b = x,
                          .c = dweights.shared_gate,
                          .a_transposed = true,
                          .accumulate = true});
}

}  // namespace plumbline::training
