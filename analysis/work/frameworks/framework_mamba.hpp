// A Mamba-2 mixer as Megatron-Core runs it (core/ssm/mamba_mixer.py of d98e8a64).
#pragma once

#include "analysis/step/stage_shape.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {

/// The calls of a mixer in one direction, between the norm in front of it and the sum behind it. Its kernels
/// (state-spaces/mamba@e9594ce1, mamba_ssm/ops/triton: ssd_combined.py and parts; causal_conv1d) move what
/// is counted here from the code, each tensor read or written once. The rate of the scan's is a guess: that
/// of other Triton kernels of a recurrence in chunks, forward (ScanRates).
class MambaCalls {
 public:
  MambaCalls(const StageShape& shape, FrameworkCalls& calls)
      : s_(shape), mamba_(shape.mixer.mamba), calls_(calls) {}

  void forward();
  void backward_input();
  void backward_weight();
  /// Operators that the host launches: those kernels, and PyTorch's around them.
  static double operators(bool backward) { return backward ? 34 : 16; }

 private:
  /// A kernel; `bytes`: of a token.
  void kernel(const char* name, double bytes, StreamRate rate = StreamRate::recurrence);
  void exchange(std::int64_t width);
  void transpose(std::int64_t width);
  /// Bytes of a token: of its states in fp32, of one that is shared by a group in 16 bits, and of the product
  /// of C and B of its chunk in fp32.
  double states() const;
  double grouped() const;
  double chunk_products() const;

  const StageShape& s_;
  const Mamba& mamba_;
  FrameworkCalls& calls_;
};

}  // namespace plumbline
