// Passes without a partner, as counted by hand in Megatron-Core's schedules.
#include "analysis/time/lone_passes.hpp"

#include <gtest/gtest.h>

namespace plumbline::lone_passes_test {
namespace {

TEST(LonePasses, AreThoseBeforeTheFirstBackward) {
  struct Case {
    int ranks, chunks;
    std::int64_t microbatches;
    double expected;
  };
  const Case cases[] = {
      {1, 1, 8, 1},                         // the first forward and the last backward
      {4, 1, 8, 1},                         // three of 1F1B's warm-up and one, on four stages
      {4, 4, 60, 19.0 / 16},                // 2 * 3 + 3 * 4 + 1 on sixteen
      {4, 2, 60, 11.0 / 8},  {4, 2, 1, 1},  // never more than all
  };
  for (const Case& c : cases) {
    Schedule schedule;
    schedule.ranks = c.ranks;
    schedule.stages = c.ranks * c.chunks;
    EXPECT_DOUBLE_EQ(lone_passes(schedule, c.microbatches), c.expected) << c.ranks << ' ' << c.chunks;
  }
}

}  // namespace
}  // namespace plumbline::lone_passes_test
