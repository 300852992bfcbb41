// Dropout of the hidden state: drawing the mask, dropping in place of a residual sum, and the gradient.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/dropout_lanes.hpp"

namespace plumbline::cpu {
namespace {

PLUMBLINE_MULTIVERSION void draw_rows(const Dropout& dropout, Matrix mask) {
  for (std::int64_t row = 0; row < mask.rows; ++row) {
    std::uint8_t* out = row_of<std::uint8_t>(mask, row);
    std::int64_t col = 0;
    for (; col + kMaskChunk <= mask.cols; col += kMaskChunk) draw_mask(dropout, col, row, 0, out + col);
    if (col == mask.cols) continue;
    std::uint8_t rest[kMaskChunk];
    draw_mask(dropout, col, row, 0, rest);
    std::memcpy(out + col, rest, static_cast<std::size_t>(mask.cols - col));
  }
}

/// y = [residual +] (x [+ bias])·mask·scale; the optional terms are decided once, outside the loop over
/// columns.
template <class T, bool kResidual, bool kBias>
PLUMBLINE_MULTIVERSION void drop_and_add(Matrix x, const T* bias, Matrix residual, Matrix mask, float scale,
                                         Matrix y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const T* in = row_of<T>(x, row);
    const T* stream = kResidual ? row_of<T>(residual, row) : nullptr;
    const std::uint8_t* stays = row_of<std::uint8_t>(mask, row);
    T* out = row_of<T>(y, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      Lanes value = load(in + i, part);
      if constexpr (kBias) value += load(bias + i, part);
      value = masked(value * scale, stays + i, part);
      if constexpr (kResidual) value += load(stream + i, part);
      store(out + i, value, part);
    });
  }
}

void drop_and_add(const char* op, const Matrix& x, const Matrix& bias, const Matrix& residual,
                  const Matrix& mask, double probability, const Matrix& y) {
  const float scale = dropout_scale(probability);
  with_type(op, y.dtype, [&](auto type) {
    using T = decltype(type);
    if (bias.data != nullptr && residual.data != nullptr) {
      return drop_and_add<T, true, true>(x, bias.as<T>(), residual, mask, scale, y);
    }
    if (bias.data != nullptr) return drop_and_add<T, false, true>(x, bias.as<T>(), residual, mask, scale, y);
    const bool gapless = x.contiguous() && mask.contiguous() && y.contiguous();
    if (residual.data == nullptr) {
      if (!gapless) return drop_and_add<T, false, false>(x, nullptr, {}, mask, scale, y);
      return drop_and_add<T, false, false>(flattened(x), nullptr, {}, flattened(mask), scale, flattened(y));
    }
    if (!gapless || !residual.contiguous()) {
      return drop_and_add<T, true, false>(x, nullptr, residual, mask, scale, y);
    }
    drop_and_add<T, true, false>(flattened(x), nullptr, flattened(residual), flattened(mask), scale,
                                 flattened(y));
  });
}

}  // namespace

void CpuOperators::dropout_mask(const Dropout& dropout, Matrix mask) {
  draw_rows(dropout, mask);
}

void CpuOperators::dropout_add(Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                               Matrix y) {
  drop_and_add("dropout_add", x, bias, residual, mask, probability, y);
}

void CpuOperators::dropout_backward(Matrix dy, Matrix mask, double probability, Matrix dx) {
  drop_and_add("dropout_backward", dy, {}, {}, mask, probability, dx);
}

}  // namespace plumbline::cpu
