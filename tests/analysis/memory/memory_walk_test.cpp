// Repetitions that a walk over a rank's memory skips.
#include "analysis/memory/memory_walk.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "schedules/repeating.hpp"

namespace plumbline::memory_walk_test {
namespace {

Schedule completed(const Schedule& compute) {
  return add_step_end(add_transfers(compute, TransferOrder::sends_first), {true, true});
}

/// The positions of a rank's list that the runs stand for, in order.
std::size_t expect_stands_for(const MemoryPlan::Rank& rank, const std::vector<Action>& actions,
                              const std::string& what) {
  std::size_t at = 0;
  for (const MemoryPlan::Run& run : rank.runs) {
    for (std::int64_t time = 0; time < run.times; ++time) {
      for (std::uint32_t i = run.first; i < run.first + run.items; ++i, ++at) {
        const MemoryPlan::Item& item = rank.items[i];
        if (at >= actions.size()) return at + 1;
        EXPECT_EQ(item.action.type, actions[at].type) << what << ' ' << at;
        EXPECT_EQ(item.action.stage, actions[at].stage) << what << ' ' << at;
        if (time == 0) {
          EXPECT_EQ(item.position, at) << what;
          EXPECT_EQ(item.action.microbatch, actions[at].microbatch) << what << ' ' << at;
        }
        if (time == run.times - 1) {
          EXPECT_EQ(item.last_microbatch, actions[at].microbatch) << what << ' ' << at;
        }
        const bool last = item.has_last_gradient;
        EXPECT_TRUE(!last || run.times == 1) << what << ": final gradients are looked at one by one";
      }
    }
  }
  return at;
}

TEST(MemoryPlan, StandsForEveryActionOfEverySchedule) {
  for (const std::string_view name : schedule_names()) {
    for (const int ranks : {2, 4}) {
      ScheduleRequest request;
      request.name = name;
      request.ranks = ranks;
      request.microbatches = 6 * ranks;
      const Schedule schedule = completed(make_schedule(request));
      const MemoryPlan plan = memory_plan(schedule, false);
      const MemoryPlan each = memory_plan(schedule, false, true);
      ASSERT_EQ(plan.ranks.size(), schedule.actions.size());
      for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
        const std::vector<Action>& actions = schedule.actions[rank];
        const std::string what = std::string(name) + " rank " + std::to_string(rank);
        EXPECT_EQ(expect_stands_for(plan.ranks[rank], actions, what), actions.size()) << what;
        EXPECT_EQ(each.ranks[rank].items.size(), actions.size());
        EXPECT_EQ(each.ranks[rank].runs.size(), actions.size());
      }
    }
  }
}

TEST(MemoryPlan, LongSchedulesAreShort) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "vocab-1", "interlaced"}) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 400;
    const Schedule schedule = completed(make_schedule(request));
    for (const MemoryPlan::Rank& rank : memory_plan(schedule, false).ranks)
      EXPECT_LT(rank.items.size(), 250U) << name << " has " << schedule.actions[0].size();
  }
}

/// Plan of a step that repeats itself: its beginning, one copy in place of the skipped ones, and the rest.
TEST(MemoryPlan, OneCopyStandsForThoseThatAreNotWrittenDown) {
  ScheduleRequest request;
  request.name = "1f1b";
  request.ranks = 4;
  request.microbatches = 200;
  const RepeatedSchedule step = *make_repeated(request, completed);
  const MemoryPlan plan = memory_plan(step, false);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RepeatedSchedule::Period& period = step.periods[rank];
    const std::vector<Action>& once = step.once.actions[rank];
    std::vector<Action> actions(once.begin(), once.begin() + static_cast<std::ptrdiff_t>(period.end()));
    actions.insert(actions.end(), once.begin() + static_cast<std::ptrdiff_t>(period.first), once.end());
    std::size_t count = 0;
    for (const MemoryPlan::Run& run : plan.ranks[rank].runs) {
      EXPECT_TRUE(run.copy == 0 || run.copy == step.copies - 1);
      count += static_cast<std::size_t>(run.times) * run.items;
    }
    EXPECT_EQ(count, actions.size());
  }
}

using Amounts = std::vector<std::pair<int, std::int64_t>>;

void play(const Amounts& amounts, Replay& replay) {
  for (const auto& [category, bytes] : amounts) {
    if (bytes > 0) replay.take(static_cast<Category>(category), bytes);
    if (bytes < 0) replay.give(static_cast<Category>(category), -bytes);
  }
}

RC_GTEST_PROP(Replay, AppendedIsPlayedAgainAndAgain, ()) {
  const auto amounts = [] {
    return *rc::gen::container<Amounts>(
        rc::gen::pair(rc::gen::inRange(0, kCategories), rc::gen::inRange<std::int64_t>(-5, 6)));
  };
  const Amounts before = amounts();
  const Amounts part = amounts();
  const Amounts after = amounts();
  const std::int64_t times = *rc::gen::inRange<std::int64_t>(1, 6);
  Replay one;
  play(part, one);
  Replay played;
  Replay appended;
  play(before, played);
  play(before, appended);
  for (std::int64_t i = 0; i < times; ++i) play(part, played);
  appended.append(one.profile(), times);
  play(after, played);
  play(after, appended);
  RC_ASSERT(played.profile().net == appended.profile().net);
  RC_ASSERT(played.profile().peak == appended.profile().peak);
}

}  // namespace
}  // namespace plumbline::memory_walk_test
