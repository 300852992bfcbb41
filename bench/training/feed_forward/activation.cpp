#include "bench/training/feed_forward/activation.hpp"

#include <utility>

namespace plumbline::training {
namespace {

/// Pointwise form of an activation that is neither gated nor GELU's approximation.
Pointwise pointwise_of(Activation activation) {
  if (activation == Activation::relu) return Pointwise::relu;
  return activation == Activation::squared_relu ? Pointwise::squared_relu : Pointwise::gelu_erf;
}

}  // namespace

void activation_forward(const TrainingContext& context, const Matrix& fc1, const Matrix& y) {
  Operators& ops = context.operators;
  const Activation activation = context.model().activation;
  switch (activation) {
    case Activation::swiglu:
      return ops.swiglu_forward(fc1, y);
    case Activation::geglu:
      return ops.geglu_forward(fc1, y);
    case Activation::gelu:
      return ops.gelu_forward(fc1, y);
    default:
      return ops.pointwise_forward(pointwise_of(activation), fc1, y);
  }
}

Tensor activation_backward(const TrainingContext& context, Tensor gradient, const Matrix& fc1,
                           Category category) {
  Operators& ops = context.operators;
  const Activation activation = context.model().activation;
  if (!is_gated(activation)) {
    if (activation == Activation::gelu) {
      ops.gelu_backward(gradient, fc1, gradient);
    } else {
      ops.pointwise_backward(pointwise_of(activation), gradient, fc1, gradient);
    }
    return gradient;
  }
  Tensor dfc1 = context.make(category, "gradient of fc1", fc1.rows, fc1.cols);
  if (activation == Activation::swiglu) {
    ops.swiglu_backward(gradient, fc1, dfc1);
  } else {
    ops.geglu_backward(gradient, fc1, dfc1);
  }
  gradient.reset();
  return dfc1;
}

}  // namespace plumbline::training
