// Ranks stay within the processors of the process that starts them.
#include "bench/processes/launch/rank_binding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "bench/processes/launch/launch_environment.hpp"
#include "core/run/processors.hpp"

namespace plumbline::rank_binding_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

TEST(RankBinding, EachRankHasItsCoreElseAThreadInTurn) {
  const std::vector<std::vector<int>> cores = {{1, 5}, {2, 6}};
  struct Case {
    int rank;
    int ranks;
    std::vector<int> threads;
  };
  for (const Case& c : {Case{0, 1, {1, 5}}, Case{0, 2, {1, 5}}, Case{1, 2, {2, 6}}, Case{2, 3, {}},
                        Case{3, 4, {}}, Case{0, 5, {1}}, Case{1, 5, {5}}, Case{3, 5, {6}}, Case{4, 5, {1}}})
    EXPECT_EQ(threads_of_rank(cores, c.rank, c.ranks), c.threads) << c.rank << " of " << c.ranks;
  EXPECT_THAT(threads_of_rank({{3}}, 1, 2), ElementsAre(3));
}

TEST(RankBinding, ANarrowMaskIsWhatRanksGet) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one processor";
  EXPECT_EQ(mask_is_narrow(), CPU_COUNT(&before) < machine_processors());
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) last = cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_TRUE(mask_is_narrow());
  EXPECT_EQ(usable_processors(), 1);
  for (const int ranks : {1, 2}) {
    const auto words = mpirun_command(ranks, "program", {}, true);
    const auto option = std::find(words.begin(), words.end(), "--bind-to");
    EXPECT_EQ(option[1], "none");
    EXPECT_THAT(binding_variables(ranks, true), Contains(Pair("PLUMBLINE_PROCESSORS", "1")));
    EXPECT_THAT(binding_variables(ranks, true),
                Contains(Pair("PLUMBLINE_BIND_RANKS", std::to_string(ranks))));
    EXPECT_EQ(binding_variables(ranks, false).size(), 1U);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace plumbline::rank_binding_test
