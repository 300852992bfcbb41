// Emulated dropout of the hidden state.
#include "kernels/emulated/checks.hpp"
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {
namespace {

bool mask_of(const Matrix& mask, const Matrix& x) {
  return has_shape(mask, x.rows, x.cols, DType::uint8);
}

}  // namespace

void EmulatedOperators::dropout_mask(const Dropout& dropout, Matrix mask) {
  require_probability("dropout_mask", dropout.probability);
  require(mask.dtype == DType::uint8, "dropout_mask", {mask});
  pass_over("dropout_mask", mask.dtype, {}, {mask});
}

void EmulatedOperators::dropout_add(Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                                    Matrix y) {
  require_probability("dropout_add", probability);
  require(alike(x, y) && absent_or(bias, vector_of(bias, y)) && absent_or(residual, alike(residual, y)) &&
              mask_of(mask, y),
          "dropout_add", {x, bias, residual, mask, y});
  pass_over("dropout_add", y.dtype, {x, residual, mask}, {y});
}

void EmulatedOperators::dropout_backward(Matrix dy, Matrix mask, double probability, Matrix dx) {
  require_probability("dropout_backward", probability);
  require(alike(dy, dx) && mask_of(mask, dx), "dropout_backward", {dy, mask, dx});
  pass_over("dropout_backward", dx.dtype, {dy, mask}, {dx});
}

}  // namespace plumbline::emulated
