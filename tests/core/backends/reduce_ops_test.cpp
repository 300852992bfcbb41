// Sums of 16-bit numbers as the reductions of the MPI communicator make them, against their definition.
#include "tests/core/backends/mpi_test.hpp"

namespace plumbline::mpi_test::reduce_ops_test {
namespace {

TEST(ReduceOps, RoundsBf16ToNearestEven) {
  struct Case {
    const char* name;
    std::uint16_t a, b, sum;
  };
  constexpr Case kCases[] = {
      {"exact", 0x3f80, 0x3f80, 0x4000},                   // 1 + 1 = 2
      {"half goes down to even", 0x4380, 0x3f80, 0x4380},  // 256 + 1 = 257, between 256 and 258
      {"half goes up to even", 0x4381, 0x3f80, 0x4382},    // 258 + 1 = 259, between 258 and 260
      {"more than half goes up", 0x4380, 0x3fc0, 0x4381},  // 256 + 1.5
      {"cancels", 0x42f7, 0xc2f7, 0x0000},                 //
      {"overflows to infinity", 0x7f7f, 0x7f7f, 0x7f80},   //
      {"infinity stays", 0x7f80, 0x3f80, 0x7f80},          //
      {"denormal kept", 0x0001, 0x0001, 0x0002},           //
  };
  for (const Case& c : kCases) {
    std::vector<std::uint16_t> in(100, c.a);  // long enough for the vector loop and its remainder
    std::vector<std::uint16_t> inout(100, c.b);
    add_bf16(in.data(), inout.data(), 99);
    EXPECT_EQ(inout.front(), c.sum) << c.name;
    EXPECT_EQ(inout[98], c.sum) << c.name;
    EXPECT_EQ(inout[99], c.b) << c.name;
  }
  std::uint16_t in = 0x7f80;  // infinity - infinity and a NaN whose mantissa would round into infinity
  std::uint16_t inout = 0xff80;
  add_bf16(&in, &inout, 1);
  EXPECT_TRUE(std::isnan(value_of(inout)));
  in = 0x7fff;
  inout = 0;
  add_bf16(&in, &inout, 1);
  EXPECT_TRUE(std::isnan(value_of(inout)));
}

TEST(ReduceOps, AddsFp16AsDefined) {
  // Every half alone, and every half with numbers near its end of the range, against the nearest half by
  // search.
  for (const std::uint16_t other : {0x0000, 0x0001, 0x8001, 0x3c00, 0x4001, 0xbc01, 0x7bff, 0x0400, 0x83ff}) {
    std::vector<std::uint16_t> sums(65536, other);
    std::vector<std::uint16_t> all(65536);
    for (int i = 0; i < 65536; ++i) all[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
    add_fp16(all.data(), sums.data(), 65536);
    int wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double exact = half_value(all[i]) + half_value(other);
      const double found = half_value(sums[i]);
      if (std::isnan(exact)) {
        wrong += std::isnan(found) ? 0 : 1;
      } else if (std::abs(exact) >= 65520) {  // half way between the largest half and 2^16
        wrong += std::isinf(found) && std::signbit(found) == std::signbit(exact) ? 0 : 1;
      } else {
        // No neighbour is nearer, and of two as near the even one is taken.
        const double error = std::abs(found - exact);
        const auto magnitude = static_cast<std::uint16_t>(sums[i] & 0x7fff);
        const double up = std::abs(half_value(magnitude + 1) - std::abs(exact));
        const double down = magnitude == 0 ? INFINITY : std::abs(half_value(magnitude - 1) - std::abs(exact));
        if (error > up || error > down || ((error == up || error == down) && (sums[i] & 1) != 0)) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0) << "with " << other;
  }
}

}  // namespace
}  // namespace plumbline::mpi_test::reduce_ops_test
