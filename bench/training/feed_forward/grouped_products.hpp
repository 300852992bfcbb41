// The products of experts: each has rows of its own, as many as tokens were sent to it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/operators.hpp"

namespace plumbline::training {

/// Rows of x and y are those of expert 0, then of expert 1, …; W (E·out, in) has the experts' weights one below the
/// other. An expert without rows has no product.
class GroupedProducts {
 public:
  /// `counts`: rows of each expert; outlives it.
  GroupedProducts(Operators& operators, const std::vector<std::int64_t>& counts)
      : operators_(operators), counts_(counts) {}

  /// y = x·Wᵀ.
  void forward(const Matrix& x, const Matrix& weights, const Matrix& y) const;
  /// dx = dy·W.
  void input_gradient(const Matrix& dy, const Matrix& weights, const Matrix& dx) const;
  /// dW += dyᵀ·x.
  void weight_gradient(const Matrix& dy, const Matrix& x, const Matrix& dweights) const;

 private:
  template <class Product>
  void each(const Matrix& weights, const Product& product) const;

  Operators& operators_;
  const std::vector<std::int64_t>& counts_;
};

}  // namespace plumbline::training
