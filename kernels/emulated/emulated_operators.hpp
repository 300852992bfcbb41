// The operator list without arithmetic: shapes are checked, no memory is touched, and every call takes the
// time that somebody else says it takes on the emulated device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/run/emulated_clock.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// One operator call as far as its time depends on it.
struct EmulatedCall {
  // Of the member of Operators: "gemm", "attention_forward", "adam"; attention that drops probabilities is
  // "attention_forward_dropout", "attention_backward_dropout".
  std::string_view name;
  DType type = DType::fp32;  // storage type of the operands (squared_norm, fill: of the matrix)
  // gemm: C is m × n, k products are summed per element.
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  AttentionShape attention{0, 0, 0, 0, 0};  // attention_forward, attention_backward
  std::int64_t elements = 0;                // everything else: of the largest matrix
  std::int64_t bytes = 0;                   // everything else: read and written
};
bool operator==(const EmulatedCall& a, const EmulatedCall& b);

/// The time of a call. Asked once for every kind of call.
using CallTime = std::function<Seconds(const EmulatedCall&)>;

/// Operators that add each call's time to `pace`. Losses and norms are 0, downloads leave host memory as it
/// is; attention wants the scratch of the cpu backend, so that both allocate the same bytes. `pace` must
/// outlive them.
std::unique_ptr<Operators> make_emulated_operators(Pace& pace, CallTime time);

}  // namespace plumbline
