// Bytes of tensors in FP8 with their scales, and of the products that read them.
#pragma once

#include <cstdint>

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// Bytes that one product of a layer takes besides its operands in FP8 (bench/training/fp8.md); 0 in
/// the storage type.
struct ProductBytes {
  std::int64_t weight;      // ZeRO 3: its quantized weights, or their transpose; else they are held
  std::int64_t transposed;  // gradient of its output and its input, for the weight gradient
};

inline constexpr std::int64_t kScaleBytes = 3 * sizeof(float);  // scale, 1/scale, largest value

/// A tensor of one byte per element, with the scale that belongs to it; 0 in the storage type.
inline std::int64_t quantized_bytes(const StageShape& s, std::int64_t elements) {
  const std::int64_t scale = s.numerics.fp8_tensorwise ? kScaleBytes : 0;
  return s.numerics.fp8 ? elements + scale : 0;
}

/// A product of `out` x `in` weights on the tokens of a micro-batch.
inline ProductBytes product_bytes(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.numerics.fp8) return {};
  return {s.sharding.zero >= 3 ? out * in : 0, s.stream.tokens * (out + in)};
}

}  // namespace plumbline
