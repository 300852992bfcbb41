// Bubble numbers of hand-made traces.
#include "core/trace/trace.hpp"

#include <gtest/gtest.h>

namespace plumbline::trace_test {
namespace {

Event compute(double start, double end) {
  return {{ActionType::forward, false, 0, 0}, {start}, {end}};
}
Event other(ActionType type, double start, double end) {
  return {{type, false, 0, 0}, {start}, {end}};
}

TEST(Trace, BubbleCountsOnlyThePipelinesPartOfTheStep) {
  Trace trace;
  trace.ranks = {{compute(0, 3), compute(4, 6), other(ActionType::optimizer, 6, 20)},
                 {other(ActionType::receive_forward, 0, 1), compute(1, 6)}};
  EXPECT_DOUBLE_EQ(trace.makespan().value, 20);
  EXPECT_DOUBLE_EQ(trace.pipeline_end().value, 6);
  const Bubble bubble = bubble_of(trace);
  EXPECT_DOUBLE_EQ(bubble.fraction, 2.0 / 12);
  EXPECT_DOUBLE_EQ(bubble.ratio, 2.0 / 10);
}

TEST(Trace, OverlappingEventsAreBusyOnce) {
  Trace trace;
  trace.ranks = {{compute(0, 4), compute(1, 3), compute(2, 5)}};
  EXPECT_DOUBLE_EQ(trace.busy(0).value, 5);
  EXPECT_DOUBLE_EQ(bubble_of(trace).fraction, 0);
}

TEST(Trace, NothingHappened) {
  EXPECT_DOUBLE_EQ(bubble_of(Trace{}).fraction, 0);
  EXPECT_DOUBLE_EQ(Trace{}.makespan().value, 0);
}

}  // namespace
}  // namespace plumbline::trace_test
