// The CUDA operators on the first GPU as the backend under test; without a GPU every test is skipped.
#include "kernels/cuda/cuda_operators.hpp"
#include "tests/kernels/cuda/staged_operators.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

class NeedsDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device: nothing was tested";
  }
};
const ::testing::Environment* const kNeedsDevice = ::testing::AddGlobalTestEnvironment(new NeedsDevice);

}  // namespace

std::unique_ptr<Operators> make_operators() {
  std::unique_ptr<Operators> device = make_cuda_operators();
  std::unique_ptr<MemorySource> memory = device_memory(*device);
  return stage(std::move(device), std::move(memory));
}

std::vector<DType> element_types() {
  return {DType::fp32, DType::bf16, DType::fp16};
}

std::int64_t fp8_size_step() {
  return cuda_has_fp8(0) ? 16 : 0;
}

double fp8_sum_rounding() {
  return 0x1p-12;  // Hopper's matrix units sum with about 14 bits (arXiv:2412.19437 §3.3.2)
}

}  // namespace plumbline::test
