// Kernels around products with quantized frozen weights (bitsandbytes-foundation/bitsandbytes@95f9af30,
// autograd/_functions.py): every product makes 16-bit weights first, or multiplies in 8 bits.
#pragma once

#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/frozen_weights.hpp"

namespace plumbline {

/// Calls and launches of dequantization.
class FrozenCalls {
 public:
  /// Appends the kernels around a layer's products, forward or of the input gradients, and returns how many
  /// are launched. `whole`: false if the last product of the layer does not run.
  static double append(const StageShape& s, bool backward, bool whole, FrameworkCalls& calls) {
    if (!s.adapters.quantized()) return 0;
    const std::int64_t elements = layer_matrices(s) - (whole ? 0 : s.stream.hidden * s.mlp.ffn);
    const bool eight = s.adapters.weights == FrozenWeights::int8;
    if (eight && !backward) return eight_bit_product(s, calls);
    calls.stream("dequantize", elements, moved_bytes(s, backward) + frozen_packed_bytes(s, 1));
    const double kernels = eight ? 2 : s.adapters.weights == FrozenWeights::nf4_double ? 3 : 1;
    return kernels * kModules;
  }

 private:
  static constexpr double kScaled = 64;    // elements with one scale: NF4 and FP4
  static constexpr double kGrouped = 128;  // GPTQ and AWQ
  /// Linear modules of a layer in Hugging Face's models: query, key, value, projection, gate, up and down.
  static constexpr double kModules = 7;

  /// Every module quantizes its own input.
  static std::int64_t inputs_of(const StageShape& s) {
    return 5 * s.stream.hidden + s.attention.attended() + s.mlp.ffn;
  }

  /// Bytes per element that one dequantization moves besides the packed weights.
  static double moved_bytes(const StageShape& s, bool backward) {
    const auto out = static_cast<double>(s.numerics.e());
    switch (s.adapters.weights) {
      case FrozenWeights::native:
        return 0;
      case FrozenWeights::nf4:
        return 4 / kScaled + out;
      case FrozenWeights::nf4_double:  // scales to fp32, their mean added, read
        return (1 + 4 + 8 + 4) / kScaled + out;
      case FrozenWeights::int8:  // the product reads 8 bits; a copy is scaled in place for the gradient's
        return backward ? 3 * out : 0;
      case FrozenWeights::int4:
        return (2 + 0.5) / kGrouped + out;
    }
    return 0;
  }

  /// LLM.int8()'s forward: inputs to fp16 and 8 bits, with a search for outliers (backends/cuda/ops.py,
  /// int8_vectorwise_quant: abs, comparison, any, any by column), 32-bit results back to 16 bits.
  static double eight_bit_product(const StageShape& s, FrameworkCalls& calls) {
    const double to_fp16 = s.numerics.type == DType::fp16 ? 0 : 4;
    calls.stream("find outliers", s.stream.tokens * inputs_of(s), 4 + 3 + 1 + 1);
    calls.stream("cast to int8", s.stream.tokens * inputs_of(s), to_fp16 + 3);
    calls.stream("cast from int32", s.stream.tokens * frozen_outputs(s), 6);
    return 8 * kModules;
  }
};

}  // namespace plumbline
