// Emulated dropout of the hidden state.
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {

void EmulatedOperators::dropout_mask(const Dropout& /*dropout*/, Matrix mask) {
  pass_over("dropout_mask", mask.dtype, {}, {mask});
}

void EmulatedOperators::dropout_add(Matrix x, Matrix /*bias*/, Matrix residual, Matrix mask,
                                    double /*probability*/, Matrix y) {
  pass_over("dropout_add", y.dtype, {x, residual, mask}, {y});
}

void EmulatedOperators::dropout_backward(Matrix dy, Matrix mask, double /*probability*/, Matrix dx) {
  pass_over("dropout_backward", dx.dtype, {dy, mask}, {dx});
}

}  // namespace plumbline::emulated
