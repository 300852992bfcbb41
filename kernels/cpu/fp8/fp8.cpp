// Quantization to 8-bit floating point types.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fp8/fp8_floats.hpp"

namespace plumbline::cpu {
namespace {

/// As an integer an absolute value has the order of the numbers, and NaN comes last.
PLUMBLINE_INLINE std::int32_t magnitude_of(float value) {
  return std::bit_cast<std::int32_t>(value) & 0x7FFFFFFF;
}

void accumulate_amax(const Matrix& amax, std::int32_t magnitude) {
  float& noted = *amax.as<float>();
  noted = std::bit_cast<float>(std::max(magnitude_of(noted), magnitude));
}

/// The magnitude that is largest in x.
template <class T>
PLUMBLINE_MULTIVERSION std::int32_t find_amax(Matrix x) {
  std::int32_t largest = 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = row_of<T>(x, row);
    for (std::int64_t i = 0; i < x.cols; ++i) largest = std::max(largest, magnitude_of(to_float(in[i])));
  }
  return largest;
}

/// y = the nearest code to x·scale. Returns the largest magnitude of x, requested or not: the time is
/// memory's.
template <class T, class F>
PLUMBLINE_MULTIVERSION std::int32_t quantize(Matrix x, float scale, Matrix y) {
  constexpr auto kLimit = static_cast<float>(largest_finite(F::kType));
  std::int32_t largest = 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* __restrict in = row_of<T>(x, row);
    F* __restrict out = row_of<F>(y, row);
    for (std::int64_t i = 0; i < x.cols; ++i) {
      const float value = to_float(in[i]);
      largest = std::max(largest, magnitude_of(value));
      const float scaled = value * scale;
      const float below = scaled > kLimit ? kLimit : scaled;  // a NaN is neither above nor below
      out[i] = to_fp8<F>(below < -kLimit ? -kLimit : below);
    }
  }
  return largest;
}

// Bytes are transposed in squares of sixteen. Interleaving rows i and i + 8 four times moves the byte at
// (row, column) to (column, row).
constexpr std::int64_t kSquare = 16;
using ByteRow = std::uint8_t __attribute__((vector_size(kSquare)));

PLUMBLINE_INLINE void transpose_square(const std::uint8_t* x, std::int64_t x_stride, std::uint8_t* y,
                                       std::int64_t y_stride) {
  ByteRow rows[kSquare];
  for (int i = 0; i < kSquare; ++i) std::memcpy(&rows[i], x + i * x_stride, kSquare);
  for (int pass = 0; pass < 4; ++pass) {
    ByteRow mixed[kSquare];
    for (std::int64_t i = 0; i < kSquare / 2; ++i) {
      mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                             6, 22, 7, 23);
      mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(rows, mixed, sizeof rows);
  }
  for (int i = 0; i < kSquare; ++i) std::memcpy(y + i * y_stride, &rows[i], kSquare);
}

/// One tile, small enough for the cache to keep every line of it until all squares are done.
void transpose_tile(const Matrix& x, std::int64_t first_row, std::int64_t rows, std::int64_t first_col,
                    std::int64_t cols, const Matrix& y) {
  const auto* from = static_cast<const std::uint8_t*>(x.at(first_row, first_col));
  auto* to = static_cast<std::uint8_t*>(y.at(first_col, first_row));
  const std::int64_t whole_rows = rows / kSquare * kSquare;
  const std::int64_t whole_cols = cols / kSquare * kSquare;
  for (std::int64_t col = 0; col < whole_cols; col += kSquare) {
    for (std::int64_t row = 0; row < whole_rows; row += kSquare) {
      transpose_square(from + row * x.stride + col, x.stride, to + col * y.stride + row, y.stride);
    }
  }
  for (std::int64_t col = 0; col < cols; ++col) {
    for (std::int64_t row = col < whole_cols ? whole_rows : 0; row < rows; ++row) {
      to[col * y.stride + row] = from[row * x.stride + col];
    }
  }
}

constexpr std::int64_t kTile = 64;

void transpose_rows(const Matrix& x, const Matrix& y) {
  for (std::int64_t row = 0; row < x.rows; row += kTile) {
    for (std::int64_t col = 0; col < x.cols; col += kTile) {
      transpose_tile(x, row, std::min(kTile, x.rows - row), col, std::min(kTile, x.cols - col), y);
    }
  }
}

}  // namespace

void CpuOperators::fp8_amax(Matrix x, Matrix amax) {
  with_type("fp8_amax", x.dtype,
            [&](auto type) { accumulate_amax(amax, find_amax<decltype(type)>(flattened(x))); });
}

void CpuOperators::fp8_scales(Matrix amaxes, double largest, int margin, Matrix scales) {
  const auto target = static_cast<float>(std::ldexp(largest, -margin));
  for (std::int64_t col = 0; col < amaxes.cols; ++col) {
    std::int32_t found = 0;
    for (std::int64_t row = 0; row < amaxes.rows; ++row) {
      found = std::max(found, magnitude_of(row_of<float>(amaxes, row)[col]));
    }
    const auto amax = std::bit_cast<float>(found);
    if (amax == 0 || !std::isfinite(amax)) continue;
    const float scale = std::min(target / amax, std::numeric_limits<float>::max());
    row_of<float>(scales, 0)[col] = scale;
    row_of<float>(scales, 1)[col] = 1 / scale;
  }
}

void CpuOperators::fp8_quantize(Matrix x, Matrix scales, Matrix amax, Matrix y) {
  const Matrix from = x.contiguous() ? flattened(x) : x;
  const Matrix to = x.contiguous() ? flattened(y) : y;
  with_type("fp8_quantize", x.dtype, [&](auto type) {
    with_fp8_type(y.dtype, [&](auto fp8_type) {
      const std::int32_t largest =
          quantize<decltype(type), decltype(fp8_type)>(from, *scales.as<float>(), to);
      if (amax.data != nullptr) accumulate_amax(amax, largest);
    });
  });
}

// A tile's rows are transposed while the cache has them.
void CpuOperators::fp8_quantize_transpose(Matrix x, Matrix scales, Matrix amax, Matrix y, Matrix transposed) {
  std::vector<std::uint8_t> rows(y.data == nullptr ? static_cast<std::size_t>(kTile * x.cols) : 0);
  with_type("fp8_quantize_transpose", x.dtype, [&](auto type) {
    with_fp8_type(transposed.dtype, [&](auto fp8_type) {
      std::int32_t largest = 0;
      for (std::int64_t row = 0; row < x.rows; row += kTile) {
        const std::int64_t count = std::min(kTile, x.rows - row);
        const Matrix to = y.data == nullptr ? Matrix(rows.data(), count, x.cols, transposed.dtype)
                                            : y.row_range(row, count);
        largest = std::max(largest, quantize<decltype(type), decltype(fp8_type)>(x.row_range(row, count),
                                                                                 *scales.as<float>(), to));
        transpose_rows(to, transposed.columns(row, count));
      }
      if (amax.data != nullptr) accumulate_amax(amax, largest);
    });
  });
}

void CpuOperators::fp8_transpose(Matrix x, Matrix y) {
  transpose_rows(x, y);
}

}  // namespace plumbline::cpu
