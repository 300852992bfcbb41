// The exponential the operators share, over its whole range.
#include "kernels/cpu/simd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline::test {
namespace {

float exp_of(float x) {
  return cpu::exp(cpu::splat(x))[0];
}

TEST(Simd, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (int step = 0; step < 47000; ++step) {
    const float x = -87.3F + 0.00374F * static_cast<float>(step);
    const double exact = std::exp(static_cast<double>(x));
    const float near = static_cast<float>(exact);
    const double unit = std::nextafter(near, std::numeric_limits<float>::infinity()) - near;
    worst = std::max(worst, std::fabs(exp_of(x) - exact) / unit);
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(exp_of(0), 1);
}

TEST(Simd, ExponentialOutsideItsRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_of(-88), 0);
  EXPECT_EQ(exp_of(-1e30F), 0);
  EXPECT_EQ(exp_of(-kInfinity), 0);
  EXPECT_EQ(exp_of(89), kInfinity);
  EXPECT_EQ(exp_of(1e30F), kInfinity);
  EXPECT_EQ(exp_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exp_of(std::nanf("1"))));
  EXPECT_TRUE(std::isnan(exp_of(-std::nanf("0x7fffff"))));
}

}  // namespace
}  // namespace plumbline::test
