#include "bench/training/feed_forward/grouped_products.hpp"

#include <utility>

namespace plumbline::training {

template <class Product>
void GroupedProducts::each(const Product& product) const {
  Part part{0, 0, 0};
  for (const std::int64_t count : counts_) {
    part.rows = count;
    if (count > 0) product(part);
    part.row += count;
    ++part.expert;
  }
}

/// `all`: one below the other.
Matrix GroupedProducts::weights_of(const Matrix& all, std::int64_t expert) const {
  const std::int64_t height = all.rows / std::ssize(counts_);
  return all.row_range(expert * height, height);
}

/// As forward products read them, each (out, in).
LinearOperand GroupedProducts::weights_by_output(const LinearWeight& weights) const {
  const Fp8Linear& fp8 = weights.fp8;
  if (!fp8.weight) return LinearOperand(weights.values);
  if (!fp8.quantized.empty()) return LinearOperand(fp8.quantized, fp8.weight.inverse_scales());
  const std::vector<std::int64_t> heights(counts_.size(), weights.values.rows / std::ssize(counts_));
  return fp8.weight.read_rows(weights.values, heights, "quantized weights");
}

/// As input gradients read them: (out, in) of the storage type, or (in, out) quantized (linear.cpp).
LinearOperand GroupedProducts::weights_by_input(const LinearWeight& weights) const {
  const Fp8Linear& fp8 = weights.fp8;
  if (!fp8.weight) return LinearOperand(weights.values);
  if (!fp8.transposed.empty()) return LinearOperand(fp8.transposed, fp8.weight.inverse_scales());
  return fp8.weight.read_transposed(weights.values, std::ssize(counts_), "transposed weights");
}

/// The rows of every expert transposed, each without gaps where its rows were.
LinearOperand GroupedProducts::transposed_rows(const LinearOperand& x, const char* holder) const {
  const Matrix& from = x.values();
  Tensor to = context_.arena.allocate(Category::workspace, holder, from.rows, from.cols, from.dtype);
  each([&](const Part& part) {
    context_.operators.fp8_transpose(part.rows_of(from), part.rows_of(to).reshaped(from.cols, part.rows));
  });
  return LinearOperand(std::move(to), x.inverse_scale());
}

void GroupedProducts::forward(const LinearOperand& x, const LinearWeight& weights, const Matrix& y) const {
  const LinearOperand by_output = weights_by_output(weights);
  each([&](const Part& part) {
    context_.operators.gemm({.a = part.rows_of(x.values()),
                             .b = weights_of(by_output.values(), part.expert),
                             .c = part.rows_of(y),
                             .b_transposed = true,
                             .a_inverse_scale = part.scale_of(x),
                             .b_inverse_scale = part.scale_of(by_output),
                             .rows_vary = true});
  });
}

void GroupedProducts::input_gradient(const LinearOperand& dy, const LinearWeight& weights,
                                     const Matrix& dx) const {
  const LinearOperand by_input = weights_by_input(weights);
  each([&](const Part& part) {
    context_.operators.gemm({.a = part.rows_of(dy.values()),
                             .b = weights_of(by_input.values(), part.expert),
                             .c = part.rows_of(dx),
                             .b_transposed = by_input.quantized(),
                             .a_inverse_scale = part.scale_of(dy),
                             .b_inverse_scale = part.scale_of(by_input),
                             .rows_vary = true});
  });
}

void GroupedProducts::weight_gradient(const LinearOperand& dy, const LinearOperand& x,
                                      const Matrix& dweights) const {
  if (!dy.quantized()) {
    return each([&](const Part& part) {
      context_.operators.gemm({.a = part.rows_of(dy.values()),
                               .b = part.rows_of(x.values()),
                               .c = weights_of(dweights, part.expert),
                               .a_transposed = true,
                               .accumulate = true,
                               .rows_vary = true});
    });
  }
  const LinearOperand dyt = transposed_rows(dy, "transposed gradient");
  const LinearOperand xt = transposed_rows(x, "transposed input");
  const auto columns = [](const LinearOperand& all, const Part& part) {
    return part.rows_of(all.values()).reshaped(all.values().cols, part.rows);
  };
  each([&](const Part& part) {
    context_.operators.gemm({.a = columns(dyt, part),
                             .b = columns(xt, part),
                             .c = weights_of(dweights, part.expert),
                             .b_transposed = true,
                             .accumulate = true,
                             .a_inverse_scale = part.scale_of(dyt),
                             .b_inverse_scale = part.scale_of(xt),
                             .rows_vary = true});
  });
}

}  // namespace plumbline::training
