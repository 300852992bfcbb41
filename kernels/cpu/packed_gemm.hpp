// Own matrix products for processors with AVX2 and without AVX-512, where oneDNN's are slower.
#pragma once

#include <vector>

#include "kernels/operators.hpp"

namespace plumbline::cpu {

class PackedGemm {
 public:
  /// True if this processor has the instructions, and this program code for them (not with clang, nor under
  /// sanitizers).
  static bool is_fast();
  /// The product is large enough for its operands to be worth packing. Smaller ones are quicker with oneDNN.
  static bool suits(const Gemm& gemm) { return gemm.c.rows >= 64 && gemm.c.cols >= 32; }

  /// C = op(A)·op(B) [+ C] [+ bias] as in Operators::gemm, for non-empty operands of a storage type.
  /// The order of an element's sum depends only on k.
  void run(const Gemm& gemm);

 private:
  std::vector<float> a_, b_, sums_;  // packed operands; sums of a 16-bit C between passes over k
};

}  // namespace plumbline::cpu
