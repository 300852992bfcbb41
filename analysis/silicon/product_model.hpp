// Roofline of a product, without tiles and waves: what measured times are compared with between their sizes.
#pragma once

#include <algorithm>
#include <span>

namespace plumbline::silicon {

struct ProductModel {
  double kernels_s = 0;        // ramp-up and gaps of all kernels
  double flops_per_s = 0;      // of large products
  double bytes_per_s = 0;      // of long memory-bound kernels
  double operand_bytes = 2;    // per element
  double quantized_bytes = 0;  // moved to quantize an element of A; 0: A is in the operand's type

  /// Seconds of m x k by k x n, result in 16 bits; `size`: n, k, m, the order of a table's axes.
  double operator()(std::span<const double> size) const {
    // Quantizing kernels reach 0.6 of the rate of others (tables/casts.csv: 1.3 to 1.7 times as long).
    constexpr double kQuantizing = 0.6;
    const double n = size[0], k = size[1], m = size[2];
    const double bytes = operand_bytes * k * (m + n) + 2 * m * n;
    return kernels_s + quantized_bytes * m * k / (kQuantizing * bytes_per_s) +
           std::max(2 * m * n * k / flops_per_s, bytes / bytes_per_s);
  }
};

}  // namespace plumbline::silicon
