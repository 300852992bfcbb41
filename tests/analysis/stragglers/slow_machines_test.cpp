// Slow machines that a job is likely to meet.
#include "analysis/stragglers/slow_machines.hpp"

#include <gtest/gtest.h>

namespace plumbline::slow_machines_test {
namespace {

TEST(SlowMachines, TheMoreMachinesTheLikelier) {
  struct Case {
    int world;
    double probability;  // 1 - 0.995^machines
  };
  constexpr Case kCases[] = {{1, 0.005}, {8, 0.005}, {9, 0.009975}, {512, 0.274434}, {2048, 0.722854}};
  for (const Case& c : kCases) {
    const SlowMachines slow = slow_machines(Seconds{10}, c.world);
    EXPECT_NEAR(slow.probability, c.probability, 1e-5) << c.world;
    EXPECT_DOUBLE_EQ(slow.step.value, 11) << c.world;
    EXPECT_NEAR(slow.expected.value, 10 + c.probability, 1e-4) << c.world;
  }
}

}  // namespace
}  // namespace plumbline::slow_machines_test
