// Device activities, made up: which action they belong to, and the timelines of several ranks on one clock.
#include "core/profile/activity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/profile/merged_timeline.hpp"

namespace plumbline::activity_test {
namespace {

using testing::HasSubstr;

constexpr Action kForward{ActionType::forward, false, 0, 0};
constexpr Action kBackward{ActionType::backward, false, 0, 0};

DeviceActivity kernel(const char* name, double start, double end, std::uint32_t correlation) {
  return {ActivityKind::kernel, name, {start}, {end}, 7, correlation, {}};
}

TEST(Attribute, ByRangeByCallAndNeither) {
  RecordedActivities recorded;
  recorded.links = {{10, 1}, {11, 2}, {12, 99}};
  recorded.calls = {
      {10, {1.1}, {1.2}}, {11, {2.1}, {2.2}}, {12, {0.5}, {0.6}}, {13, {2.5}, {2.6}}, {14, {1.9}, {1.95}}};
  recorded.activities = {
      kernel("late", 5, 6, 10),          // of the first action, although it ran during the second
      kernel("gemm", 3, 4, 11),          // of the second
      kernel("other range", 1, 2, 12),   // a range that is not ours
      kernel("nccl", 3.5, 3.6, 13),      // launched by another thread within the second window
      kernel("between", 4, 4.1, 14),     // launched between the windows
      kernel("unknown", 1.2, 1.3, 999),  // no call was seen
      {ActivityKind::copy, "", {4.5}, {4.75}, 7, 11, Bytes{4096}},
  };
  const AttributedActivities found =
      attribute(recorded, {{kForward, 1, {1.0}, {1.5}}, {kBackward, 2, {2.0}, {3.0}}});
  ASSERT_EQ(found.actions.size(), 2U);
  const ActionActivities& forward = found.actions[0];
  EXPECT_EQ(forward.action, kForward);
  ASSERT_EQ(forward.activities.size(), 1U);
  EXPECT_EQ(forward.activities[0].name, "late");
  const ActionActivities& backward = found.actions[1];
  ASSERT_EQ(backward.activities.size(), 3U);
  EXPECT_EQ(backward.activities[0].name, "gemm");
  EXPECT_EQ(backward.activities[1].name, "nccl");
  EXPECT_EQ(backward.copied().value, 4096);
  EXPECT_DOUBLE_EQ(backward.start().value, 3);
  EXPECT_DOUBLE_EQ(backward.end().value, 4.75);
  EXPECT_DOUBLE_EQ(backward.busy().value, 1.25);  // the overlapping kernel counts once
  ASSERT_EQ(found.outside.size(), 3U);
  EXPECT_EQ(found.outside[0].name, "other range");
  EXPECT_EQ(found.outside[1].name, "unknown");
  EXPECT_EQ(found.outside[2].name, "between");
}

TEST(Attribute, NothingRecorded) {
  const AttributedActivities found = attribute({}, {{kForward, 1, {1.0}, {1.5}}});
  ASSERT_EQ(found.actions.size(), 1U);
  EXPECT_EQ(found.actions[0].busy().value, 0);
  EXPECT_EQ(found.actions[0].end().value, 0);
  EXPECT_TRUE(attribute({}, {}).actions.empty());
}

TEST(AlignedClock, OffsetAndDrift) {
  // 10 s ahead at first; loses a millisecond in 100 s.
  const AlignedClock clock({{1000}, {10}, {2e-6}}, {{1100}, {9.999}, {5e-6}});
  EXPECT_NEAR(clock.to_common({1000}).value, 1010, 1e-9);
  EXPECT_NEAR(clock.to_common({1050}).value, 1059.9995, 1e-9);
  EXPECT_NEAR(clock.to_common({1100}).value, 1109.999, 1e-9);
  EXPECT_DOUBLE_EQ(clock.error().value, 5e-6);
  EXPECT_THROW(AlignedClock({{5}, {0}, {0}}, {{5}, {0}, {0}}), Error);
}

/// Two ranks: F, SEND_F on one and RECV_F, F on the other. The second rank's clock is `offset` behind.
std::vector<RankActivities> two_ranks(double receive_end, double offset) {
  std::vector<RankActivities> ranks(2);
  ranks[0].first = {{0}, {0}, {1e-6}};
  ranks[0].last = {{100}, {0}, {3e-6}};
  ranks[0].actions = {{kForward, {1}, {2}}, {{ActionType::send_forward, false, 0, 0}, {2}, {2.1}}};
  ranks[1].pipeline_rank = 1;
  ranks[1].first = {{0}, {offset}, {2e-6}};
  ranks[1].last = {{100}, {offset}, {2e-6}};
  const double end = receive_end - offset;
  ranks[1].actions = {{{ActionType::receive_forward, false, 1, 0}, {end - 1}, {end}},
                      {{ActionType::forward, false, 1, 0}, {end}, {end + 1}}};
  ranks[1].activities.actions = {{{ActionType::receive_forward, false, 1, 0}, {}},
                                 {{ActionType::forward, false, 1, 0}, {kernel("gemm", end, end + 0.5, 1)}}};
  return ranks;
}

Schedule two_stages() {
  Schedule schedule;
  schedule.ranks = 2;
  schedule.stages = 2;
  schedule.rank_of_stage = {0, 1};
  return schedule;
}

TEST(Merge, OneClockAndItsErrorBound) {
  const MergedTimeline merged = merge(two_ranks(2.2, 40), two_stages());
  EXPECT_NEAR(merged.ranks[1].actions[0].end.value, 2.2, 1e-9);
  EXPECT_NEAR(merged.ranks[1].activities.actions[1].activities[0].start.value, 2.2, 1e-9);
  EXPECT_NEAR(merged.error.value, 5e-6, 1e-15);  // the two worst ranks
  const auto file = nlohmann::json::parse(to_trace_events(merged));
  EXPECT_NEAR(file["otherData"]["clock_error_us"].get<double>(), 5, 1e-9);
  int kernels = 0;
  for (const auto& event : file["traceEvents"]) {
    if (event["name"] != "gemm") continue;
    ++kernels;
    EXPECT_NEAR(event["ts"].get<double>(), 1.2e6, 1e-3);
    EXPECT_NEAR(event["dur"].get<double>(), 0.5e6, 1e-3);
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["args"]["action"], "1F0");
  }
  EXPECT_EQ(kernels, 1);
}

TEST(Merge, AReceiveBeforeItsSendIsRefused) {
  try {
    merge(two_ranks(1.9999, 40), two_stages());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1RECV_F0 on rank 1 ends 100.0 us before 0SEND_F0 on rank 0 begins"));
    EXPECT_THAT(error.what(), HasSubstr("error bound is 5.0 us"));
  }
}

TEST(Merge, AReceiveMayEndBeforeItsSendByTheErrorOfTheClocks) {
  EXPECT_NO_THROW(merge(two_ranks(2 - 4e-6, 40), two_stages()));
}

TEST(Merge, EveryRankMustBeThere) {
  std::vector<RankActivities> ranks = two_ranks(2.2, 0);
  ranks.pop_back();
  EXPECT_THROW(merge(ranks, two_stages()), Error);
}

}  // namespace
}  // namespace plumbline::activity_test
