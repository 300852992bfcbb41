// The CPU operators as the backend under test.
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {

std::unique_ptr<Operators> make_operators() {
  return make_cpu_operators();
}

std::vector<DType> element_types() {
  return {DType::fp32, DType::bf16, DType::fp16};
}

std::int64_t fp8_size_step() {
  return 1;
}

double fp8_sum_rounding() {
  return 0;
}

}  // namespace plumbline::test
