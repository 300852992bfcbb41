// Operands of a linear layer's products.
#pragma once

#include <utility>

#include "core/tensor/arena.hpp"

namespace plumbline::training {

/// A tensor of the storage type, or a quantized one with the 1/scale that turns its codes into numbers. Holds
/// the memory, or is a view of another object's, which outlives it.
class LinearOperand {
 public:
  LinearOperand() = default;
  /// A view.
  explicit LinearOperand(const Matrix& values, const Matrix& inverse_scale = {})
      : values_(values), inverse_scale_(inverse_scale) {}
  explicit LinearOperand(Tensor values, const Matrix& inverse_scale = {})
      : held_(std::move(values)), values_(held_), inverse_scale_(inverse_scale) {}
  /// `scale` is the tensor's own and goes with it; inverse_scale is in there.
  LinearOperand(Tensor values, Tensor scale, const Matrix& inverse_scale)
      : scale_(std::move(scale)), held_(std::move(values)), values_(held_), inverse_scale_(inverse_scale) {}

  const Matrix& values() const { return values_; }
  /// (1, 1) fp32, of rows of experts (1, experts); empty when the values are of the storage type.
  const Matrix& inverse_scale() const { return inverse_scale_; }
  bool quantized() const { return is_fp8(values_.dtype); }
  /// Memory of an operand in the storage type, which becomes empty; a quantized one, or a view, keeps it.
  Tensor release() {
    if (quantized() || !held_) return {};
    values_ = {};
    return std::move(held_);
  }
  /// move(Tensor&) of the memory that it holds, its own scale included, also if there is none (yet): it may
  /// take it away, or give one of the same shape and contents. Not for views.
  template <class Move>
  void move_memory(const Move& move) {
    if (!held_ && values_.data != nullptr) return;
    move(held_);
    move(scale_);
    values_ = held_;
    if (scale_) inverse_scale_ = scale_.matrix().row_range(1, 1);
  }
  void reset() {
    held_.reset();
    scale_.reset();
    values_ = inverse_scale_ = {};
  }

 private:
  Tensor scale_;
  Tensor held_;
  Matrix values_;
  Matrix inverse_scale_;
};

}  // namespace plumbline::training
