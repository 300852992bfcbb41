// The exponential the operators share, over its whole range.
#include "kernels/cpu/simd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
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

TEST(Simd, RoundsToTheNearestBf16TiesToEven) {
  struct Case {
    std::uint32_t fp32;
    std::uint16_t bf16;
  };
  constexpr Case kCases[] = {
      {0x3f800000, 0x3f80},                        // 1
      {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},  // ties
      {0x3f808001, 0x3f81}, {0xbf807fff, 0xbf80}, {0xbf818000, 0xbf82},
      {0x00000001, 0x0000}, {0x00018000, 0x0002},  // subnormal
      {0x7f7fffff, 0x7f80},                        // beyond the largest
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80},  // infinite
      {0x7f800001, 0x7fc0}, {0xffffffff, 0xffff},  // NaN
  };
  for (const Case& c : kCases) {
    cpu::Bf16 rounded[cpu::kLanes];
    cpu::store(rounded, cpu::splat(0) + std::bit_cast<float>(c.fp32), cpu::All{});
    // An arithmetic operation on the way may quieten a NaN, which changes no other bit that is kept.
    EXPECT_EQ(rounded[5].bits, c.bf16) << std::hex << c.fp32;
  }
}

/// Every half, and numbers just beside and between two, as the functions of single numbers have them.
TEST(Simd, HalvesAreThoseOfSingleNumbers) {
  const auto check = [](float value) {
    cpu::Fp16 rounded[cpu::kLanes];
    cpu::Lanes lanes{};
    lanes[5] = value;
    cpu::store(rounded, lanes, cpu::All{});
    EXPECT_EQ(rounded[5].bits, to_fp16(value)) << std::hex << std::bit_cast<std::uint32_t>(value);
  };
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_fp16(half);
    const cpu::Fp16 all[cpu::kLanes] = {{}, {}, {}, {half}};
    const float found = cpu::load(all, cpu::All{})[3];
    EXPECT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(value)) << std::hex << bits;
    if (std::isnan(value)) continue;
    const auto place = std::bit_cast<std::uint32_t>(value);
    for (const std::uint32_t step : {0U, 1U, 0xfffU, 0x1000U, 0x1001U})
      check(std::bit_cast<float>(place + step));
  }
  for (const float value : {65519.99F, 65520.0F, 1e10F, 3e38F, 1e-45F, 0x1p-25F, -0x1.8p-25F}) check(value);
}

TEST(Simd, LargestOfEveryLane) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kValues[] = {-kInfinity, -3e38F, -2, -1e-40F, 0, 1e-45F, 1, 3e38F, kInfinity};
  for (const float a : kValues) {
    for (const float b : kValues) {
      for (int lane = 0; lane < cpu::kLanes; ++lane) {
        cpu::LaneMaximum best;
        for (const float x : {a, b, std::nanf("1")}) {
          cpu::Lanes v = cpu::splat(-kInfinity);
          v[lane] = x;
          best.take(v);
        }
        EXPECT_EQ(best.lanes()[lane], std::max(a, b)) << a << ", " << b << ", lane " << lane;
        EXPECT_EQ(cpu::largest(best), std::max(a, b)) << a << ", " << b << ", lane " << lane;
      }
    }
  }
}

TEST(Simd, SumOfEveryLane) {
  cpu::LaneSum total;
  cpu::Lanes expected{};
  for (int turn = 1; turn < 9; ++turn) {
    cpu::Lanes v{};
    for (int lane = 0; lane < cpu::kLanes; ++lane) v[lane] = static_cast<float>(turn * turn + lane) / 7;
    total += v;
    expected += v;
  }
  for (int lane = 0; lane < cpu::kLanes; ++lane) EXPECT_EQ(total.lanes()[lane], expected[lane]) << lane;
  EXPECT_EQ(cpu::sum(total), cpu::sum(expected));
}

}  // namespace
}  // namespace plumbline::test
