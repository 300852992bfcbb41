// An emulated rank takes its given time, and does not lose time by waking up late.
#include "core/run/emulated_clock.hpp"

#include <gtest/gtest.h>

namespace plumbline::emulated_clock_test {
namespace {

TEST(EmulatedClock, WorkTakesItsTimeTimesTheFactor) {
  for (const double factor : {1.0, 0.25, 3.0}) {
    EmulatedClock clock(factor);
    const Seconds start = clock.now();
    for (int i = 0; i < 10; ++i) clock.advance({2e-3 / factor});
    EXPECT_LT((clock.now() - start).value * factor, 10e-3);  // nobody has waited yet
    clock.catch_up();
    const double real = (clock.now() - start).value * factor;
    EXPECT_GE(real, 20e-3 - EmulatedClock::kLateness.value - 1e-6);
    EXPECT_LT(real, 10.0);
  }
}

TEST(EmulatedClock, LateWakeUpsDoNotAddUp) {
  EmulatedClock clock(1);
  const Seconds start = clock.now();
  for (int i = 0; i < 100; ++i) {
    clock.advance({500e-6});
    clock.catch_up();
  }
  // Every sleep is some tens of microseconds late; together they would be several milliseconds.
  EXPECT_GE((clock.position() - start).value, 49e-3);
  EXPECT_LT((clock.position() - start).value, 10.0);
}

TEST(EmulatedClock, AnIdleRankBeginsWhenItIsAsked) {
  EmulatedClock clock(1);
  clock.advance({1e-3});
  clock.catch_up();
  const Seconds late = clock.now() + Seconds{5e-3};
  while (clock.now() < late) continue;
  clock.advance({1e-3});
  EXPECT_GE(clock.position().value, late.value);  // not right behind the first
}

TEST(EmulatedClock, WaitingForAMomentAndCallingMeanwhile) {
  EmulatedClock clock(1);
  const Seconds moment = clock.now() + Seconds{8e-3};
  clock.advance_to(moment);
  clock.advance_to(moment - Seconds{1e-3});  // never backwards
  int calls = 0;
  clock.catch_up([&] { ++calls; });
  EXPECT_GE(clock.now(), moment);
  EXPECT_GE(calls, 1);
}

TEST(EmulatedClock, FactorZeroIsFree) {
  EmulatedClock clock(0);
  EXPECT_FALSE(clock.runs());
  const Seconds start = clock.now();
  clock.advance({1e9});
  clock.advance_to({1e12});
  clock.catch_up();
  EXPECT_LT((clock.now() - start).value, 10);
}

TEST(EmulatedClock, VirtualTimeStandsStillByItself) {
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  ASSERT_TRUE(clock.runs());
  EXPECT_EQ(clock.now().value, 0);
  clock.advance({1000});  // nobody sleeps for it
  clock.catch_up();
  EXPECT_EQ(clock.now().value, 1000);
  clock.advance_to({999});
  EXPECT_EQ(clock.position().value, 1000);
  clock.advance_to({1001.5});
  EXPECT_EQ(clock.now().value, 1001.5);
}

}  // namespace
}  // namespace plumbline::emulated_clock_test
