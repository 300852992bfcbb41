// LoRA (Hu et al. 2021, arXiv:2106.09685): y = x·Wᵀ + s·(x·Aᵀ)·Bᵀ with a frozen W (bench/training/lora.md).
// A layer that joins n of the checkpoint with an A each has an A of (n·r, in), and rows of B read r features
// each.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// Values of an adapter, or, without `scale`, their gradients. Empty where a layer has none.
struct Adapter {
  Matrix a;                            // (n·r, in)
  Matrix b;                            // (out, r)
  double scale = 1;                    // s = alpha / r
  std::vector<std::int64_t> joined{};  // rows of B for each A; of values alone
  bool empty() const { return a.empty(); }
};

/// The gradient of a linear layer: of its weight, or of its adapter.
struct LinearGradient {
  LinearGradient(const Matrix& weight_, const Adapter& adapter_ = {})  // NOLINT: a weight's alone
      : weight(weight_), adapter(adapter_) {}
  Matrix weight;
  Adapter adapter;
};

/// y += s·(x·Aᵀ)·Bᵀ; nothing without an adapter. x (T, in), y (T, out).
void adapt(const TrainingContext& context, const Matrix& x, const Adapter& adapter, const Matrix& y);

/// s·dy·B (T, n·r), the gradient towards x·Aᵀ.
Tensor feature_gradient(const TrainingContext& context, const Matrix& dy, const Adapter& adapter);
/// dx += features·A.
void adapt_input_gradient(const TrainingContext& context, const Matrix& features, const Adapter& adapter,
                          const Matrix& dx);
/// dA += featuresᵀ·x, frees the features; dB += dyᵀ·(s·x·Aᵀ), which is computed again.
void adapter_gradients(const TrainingContext& context, const Matrix& dy, const Matrix& x,
                       const Adapter& adapter, Tensor features, const Adapter& gradient);

}  // namespace plumbline::training
