// Schedules that repeat themselves, written down once, are those that the generators write down whole.
#include "schedules/repeating.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/base/error.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "schedules/passes.hpp"

namespace plumbline::repeating_test {
namespace {

Schedule whole(const RepeatedSchedule& repeated) {
  return with_copies(repeated, repeated.copies);
}

const std::array<StepCompletion, 4> kCompletions = {
    [](const Schedule& s) { return s; },
    [](const Schedule& s) {
      return add_step_end(add_transfers(s, TransferOrder::posted), {true, true});
    },
    [](const Schedule& s) { return add_transfers(s, TransferOrder::blocking); },
    [](const Schedule& s) { return add_transfers(s, TransferOrder::sends_first); }};

ScheduleRequest request_of(std::string_view name, int ranks, int microbatches, int chunks = 0) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.chunks = chunks;
  return request;
}

/// The order that serves blocking sends is that of a walk, which need not treat a period like the one before.
constexpr std::size_t kInOrderOfMeetings = 2;

void expect_same(const ScheduleRequest& request, const StepCompletion& complete) {
  const auto repeated = make_repeated(request, complete);
  if (!repeated && &complete == &kCompletions[kInOrderOfMeetings]) return;
  ASSERT_TRUE(repeated) << request.name << ' ' << request.ranks << ' ' << request.microbatches;
  EXPECT_GT(repeated->copies, 1);
  const Schedule expected = complete(make_schedule(request));
  const Schedule found = whole(*repeated);
  ASSERT_EQ(found.microbatches, expected.microbatches);
  ASSERT_EQ(repeated->microbatches, expected.microbatches);
  for (std::size_t rank = 0; rank < expected.actions.size(); ++rank) {
    ASSERT_EQ(found.actions[rank], expected.actions[rank])
        << request.name << ' ' << request.ranks << " ranks, " << request.microbatches << ", rank " << rank;
  }
}

#ifdef PLUMBLINE_SANITIZED
// Every kind of schedule and of rest, but not every size.
constexpr int kMostRanks = 6;
constexpr std::array kMore = {0, 3, 8};
#else
constexpr int kMostRanks = 9;
constexpr std::array kMore = {0, 1, 2, 3, 5, 8, 13, 30};
#endif

TEST(Repeating, IsWhatTheGeneratorsWriteDown) {
  for (const ScheduleTraits& traits : known_schedules()) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      if (traits.bidirectional() && ranks % 2 != 0) continue;
      for (const int more : kMore) {
        const int microbatches = 8 * ranks + 40 + more * (traits.bidirectional() ? 2 : 1);
        const ScheduleRequest request = request_of(traits.name, ranks, microbatches);
        if (!traits.repeats) {
          if (ranks > 1) {
            EXPECT_FALSE(make_repeated(request, kCompletions[0])) << traits.name;
          }
          continue;
        }
        if (traits.whole_groups && microbatches % ranks != 0) continue;
        for (const StepCompletion& complete : kCompletions) expect_same(request, complete);
      }
    }
  }
}

TEST(Repeating, InterleavedInGroupsAndChunks) {
  for (const int chunks : {2, 3, 5}) {
    for (const int ranks : {2, 4, 5}) {
      for (const int group : {ranks, ranks + 1, 2 * ranks}) {
        for (const int groups : {12, 17}) {
          ScheduleRequest request = request_of("interleaved", ranks, group * groups + 40 * group, chunks);
          request.group = group;
          expect_same(request, kCompletions[0]);
          if (group == ranks) expect_same(request, kCompletions[1]);
        }
      }
    }
  }
}

TEST(Repeating, LongStepsAreTheSameToTheLastAction) {
  for (const auto* name : {"1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev", "v-half", "v-min"})
    expect_same(request_of(name, 4, 600), kCompletions[1]);
  expect_same(request_of("1f1b", 16, 5000), kCompletions[1]);
}

TEST(Repeating, ShortStepsAreNotWorthIt) {
  EXPECT_FALSE(make_repeated(request_of("1f1b", 8, 19), kCompletions[0]));
  EXPECT_FALSE(make_repeated(request_of("1f1b", 8, 1), kCompletions[0]));
}

TEST(Repeating, CountsActionsAndNamesThemLikeTheWholeStep) {
  const ScheduleRequest request = request_of("dualpipe", 4, 80);
  const RepeatedSchedule repeated = *make_repeated(request, kCompletions[1]);
  const Schedule expected = kCompletions[1](make_schedule(request));
  EXPECT_EQ(count_by_stage(repeated), count_by_stage(expected));
  for (std::size_t rank = 0; rank < expected.actions.size(); ++rank) {
    const std::vector<Action>& once = repeated.once.actions[rank];
    const RepeatedSchedule::Period& period = repeated.periods[rank];
    const std::size_t inserted = expected.actions[rank].size() - once.size();
    for (std::size_t i = 0; i < once.size(); ++i) {
      const bool beginning = i < period.first;
      EXPECT_EQ(repeated.in_step(once[i], beginning ? 0 : repeated.copies - 1),
                expected.actions[rank][beginning ? i : i + inserted]);
    }
  }
}

/// Too long to be written down: said before it is tried.
TEST(Repeating, WhatIsTooLongIsRefused) {
  const RepeatedSchedule repeated = *make_repeated(request_of("1f1b", 32, 1 << 29), kCompletions[0]);
  EXPECT_EQ(repeated.microbatches, 1 << 29);
  for (const auto& make : {std::function<Schedule()>([&] { return whole(repeated); }),
                           std::function<Schedule()>([] { return one_f_one_b(4096, 100'000); }),
                           std::function<Schedule()>([] { return gpipe(1 << 10, 1 << 20); })}) {
    try {
      make();
      FAIL();
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("expected at most 67108864"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace plumbline::repeating_test
