// Operands of operators in device memory: random numbers all over, and released with the last case.
#include "bench/measure/calibrate/operator_cases.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::operator_cases_test {
namespace {

/// Host memory in place of a device's, full of NaN.
class CountedMemory final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* data = source_->allocate(bytes);
    std::memset(data, 0xFF, static_cast<std::size_t>(bytes.value));
    held[data] = bytes;
    return data;
  }
  void release(void* data, Bytes bytes) noexcept override {
    EXPECT_EQ(held[data].value, bytes.value);
    held.erase(data);
    source_->release(data, bytes);
  }
  std::map<void*, Bytes> held;

 private:
  std::unique_ptr<MemorySource> source_ = host_memory();
};

TEST(OperatorCases, OperandsOnADeviceAreReleasedWithTheLastCase) {
  const auto operators = make_cpu_operators();
  CountedMemory memory;
  OperatorShape shape;
  shape.seq = 8;
  shape.hidden = shape.ffn = shape.vocab = 64;
  shape.parameters = 256;
  {
    const std::vector<OperatorCase> cases = operator_cases(*operators, shape, &memory);
    EXPECT_FALSE(memory.held.empty());
    cases.front().run();
  }
  EXPECT_TRUE(memory.held.empty());
  {
    DeviceOperands operands(*operators, memory);
    const Gemm gemm =
        operands.product({24, 16, 32, DType::fp8_e5m2, DType::fp32, false, true, true, DType::fp8_e4m3});
    EXPECT_EQ(*gemm.a_inverse_scale.as<float>(), 1);
    EXPECT_EQ(*gemm.b_inverse_scale.as<float>(), 1);
    EXPECT_EQ(memory.held.size(), 5U);
  }
  EXPECT_TRUE(memory.held.empty());
}

TEST(OperatorCases, NumbersOnADeviceAreRandomAllOver) {
  const auto operators = make_cpu_operators();
  CountedMemory memory;
  DeviceOperands operands(*operators, memory);
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{3, 5}, {2049, 2048}, {3, (1 << 22) + 7}}) {
    const Matrix x = operands.matrix(rows, cols, DType::fp32);
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const double value = x.as<float>()[i];
      ASSERT_LE(std::abs(value), 1);  // nor NaN
      sum += value;
      squares += value * value;
    }
    const auto count = static_cast<double>(x.elements());
    if (rows * cols < 100) continue;
    EXPECT_NEAR(sum / count, 0, 0.01);
    EXPECT_NEAR(squares / count, 1.0 / 3, 0.01);
  }
}

}  // namespace
}  // namespace plumbline::operator_cases_test
