// The products of experts: each has rows of its own, one per token sent to it.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/linear/linear.hpp"

namespace plumbline::training {

/// Rows of x and y are those of expert 0, then of expert 1, …; W (E·out, in) has the experts' weights one
/// below the other. An expert without rows has no product.
class GroupedProducts {
 public:
  /// `counts`: rows of each expert; outlives it.
  GroupedProducts(const TrainingContext& context, const std::vector<std::int64_t>& counts)
      : context_(context), counts_(counts) {}

  /// y = x·Wᵀ.
  void forward(const LinearOperand& x, const LinearWeight& weights, const Matrix& y) const;
  /// dx = dy·W.
  void input_gradient(const LinearOperand& dy, const LinearWeight& weights, const Matrix& dx) const;
  /// dW += dyᵀ·x.
  void weight_gradient(const LinearOperand& dy, const LinearOperand& x, const Matrix& dweights) const;

 private:
  /// An expert's part of the operands and results of all products.
  struct Part {
    std::int64_t expert, row, rows;
    Matrix rows_of(const Matrix& all) const { return all.row_range(row, rows); }
    Matrix scale_of(const LinearOperand& all) const {
      return all.quantized() ? all.inverse_scale().columns(expert, 1) : Matrix();
    }
  };
  template <class Product>
  void each(const Product& product) const;
  Matrix weights_of(const Matrix& all, std::int64_t expert) const;
  LinearOperand weights_by_output(const LinearWeight& weights) const;
  LinearOperand weights_by_input(const LinearWeight& weights) const;
  LinearOperand transposed_rows(const LinearOperand& x, const char* holder) const;

  const TrainingContext& context_;
  const std::vector<std::int64_t>& counts_;
};

}  // namespace plumbline::training
