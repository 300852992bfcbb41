// Helpers of the tests at sizes of a real layer: a call, and its comparison with the CPU.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {

using Operands = std::vector<Matrix>;

/// One call over operands in a fixed order; its returned value is compared, too.
struct Call {
  const char* name;
  std::vector<Guarded> operands;
  std::function<Number(Operators&, const Operands&)> run;
};

inline Call call(const char* name, std::function<Number(Operators&, const Operands&)> run) {
  return {name, {}, std::move(run)};
}

/// The call by the operators under test, twice, for the same bits, and by the CPU's: close as `type` is,
/// which rounds on the way.
void compare(const Call& c, DType type);

}  // namespace plumbline::test
