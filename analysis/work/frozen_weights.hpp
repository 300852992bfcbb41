// Bytes of quantized frozen linear weights in another framework's step
// (bitsandbytes-foundation/bitsandbytes@95f9af30, nn/modules.py and functional.py).
#pragma once

#include <algorithm>

#include "analysis/work/parameter_units.hpp"

namespace plumbline {

/// Output features of a layer's linear weights, all together.
inline std::int64_t frozen_outputs(const StageShape& s) {
  return s.attention.qkv() + 2 * s.stream.hidden + s.mlp.fc1;
}

/// Bytes of `elements` packed weights, without their scales.
inline double frozen_packed_bytes(const StageShape& s, double elements) {
  return s.adapters.weights == FrozenWeights::int8 ? elements : elements / 2;
}

/// Bytes of the scales of a layer's weights: of 64 elements, of 256 8-bit scales; of GPTQ and AWQ fp16 ones
/// and 4-bit zeros of 128 (group_size of their quantize_config.json).
inline double frozen_scale_bytes(const StageShape& s) {
  const auto elements = static_cast<double>(layer_matrices(s));
  switch (s.adapters.weights) {
    case FrozenWeights::native:
      return 0;
    case FrozenWeights::nf4:
      return elements * 4 / 64;
    case FrozenWeights::nf4_double:
      return elements / 64 * (1 + 4.0 / 256);
    case FrozenWeights::int8:
      return 4 * static_cast<double>(frozen_outputs(s));
    case FrozenWeights::int4:
      return elements * (2 + 0.5) / 128;
  }
  return 0;
}

/// Bytes of the largest linear weight of a layer in 16 bits, which is there while its product runs; 0 if
/// frozen weights are not quantized.
inline std::int64_t dequantized_bytes(const StageShape& s) {
  if (!s.adapters.quantized()) return 0;
  return s.numerics.e() * s.stream.hidden * std::max(s.mlp.ffn, s.attention.q);
}

}  // namespace plumbline
