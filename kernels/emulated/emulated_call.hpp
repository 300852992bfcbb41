// An operator call of the emulated device, and the function that gives its time.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/base/units.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// One operator call as far as its time depends on it.
struct EmulatedCall {
  // Member of Operators: "gemm", "attention_forward", "adam"; attention that drops probabilities is
  // "attention_forward_dropout", "attention_backward_dropout", unfused likewise.
  std::string_view name;
  DType type = DType::fp32;  // storage type of the operands (squared_norm, fill: of the matrix)
  // gemm: C is m × n, k products are summed per element.
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool bias_gradient = false;               // alongside a weight's
  AttentionShape attention{0, 0, 0, 0, 0};  // of attention, fused or not
  std::int64_t elements = 0;                // everything else: of the largest matrix
  std::int64_t bytes = 0;                   // everything else: read and written
};
bool operator==(const EmulatedCall& a, const EmulatedCall& b);

/// The time of a call. Asked once for every kind of call.
using CallTime = std::function<Seconds(const EmulatedCall&)>;

}  // namespace plumbline
