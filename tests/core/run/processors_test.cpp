// Number of processors that a process believes it has.
#include "core/run/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace plumbline {
namespace {

TEST(Processors, FollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(available_processors(), 1);
  EXPECT_LE(available_processors(), CPU_COUNT(&before));
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), available_processors());

  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  EXPECT_EQ(available_cores(), 1);
  EXPECT_EQ(thread_affinity(), (Affinity{first, 1}));
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Processors, HaveAQuotaOnlyWhereOneIsSet) {
  EXPECT_GE(processor_quota(), 0);
}

}  // namespace
}  // namespace plumbline
