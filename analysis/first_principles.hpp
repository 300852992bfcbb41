// Closed forms from the literature that the exact memory model is cross-checked against.
#pragma once

#include <cstdint>

#include "core/run_config.hpp"

namespace plumbline {

/// Bytes of model state per parameter under ZeRO (Rajbhandari et al., arXiv:1910.02054, §5): parameter and
/// gradient of `parameter_bytes` and `gradient_bytes`, K = `optimizer_bytes` (12: fp32 master and two
/// moments), cut over `data_parallel` ranks from `zero_stage` on.
double zero_bytes_per_parameter(int zero_stage, double data_parallel, double parameter_bytes = 2,
                                double gradient_bytes = 2, double optimizer_bytes = 12);

/// Sizes of the classic GPT layer with dropout and a kept s×s softmax.
struct ClassicLayer {
  double seq = 0;
  double batch = 0;
  double hidden = 0;
  double heads = 0;
  double tensor = 1;
  bool sequence_parallel = false;
};
/// Bytes of 16-bit activations one layer keeps (Korthikanti et al., arXiv:2205.05198, table 2).
double classic_activation_bytes(const ClassicLayer& layer, Recompute recompute);

/// Bytes of 16-bit activations one modern layer keeps per token (RMSNorm, grouped-query attention with
/// `query_width` = a·d and `kv_width` = k·d, SwiGLU of width `ffn`, no stored scores, no dropout), as
/// derived from the description in bench/training/README.md: 8h + 4·a·d + 4·k·d + 6F + 4a + 8 for a layer
/// that owns its output, the 8 being the two fp32 norm statistics.
double modern_activation_bytes_per_token(double hidden, double query_width, double kv_width, double ffn,
                                         double heads);

}  // namespace plumbline
