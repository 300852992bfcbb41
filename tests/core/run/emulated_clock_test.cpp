// An emulated rank takes the time it is told, and does not lose time by waking up late.
#include "core/run/emulated_clock.hpp"

#include <gtest/gtest.h>

namespace plumbline {
namespace {

TEST(Pace, WorkTakesItsTimeTimesTheFactor) {
  for (const double factor : {1.0, 0.25, 3.0}) {
    Pace pace(factor);
    const Seconds start = pace.now();
    for (int i = 0; i < 10; ++i) pace.advance({2e-3 / factor});
    EXPECT_LT((pace.now() - start).value * factor, 10e-3);  // nobody has waited yet
    pace.catch_up();
    const double real = (pace.now() - start).value * factor;
    EXPECT_GE(real, 20e-3 - Pace::kLateness.value - 1e-6);
    EXPECT_LT(real, 10.0);
  }
}

TEST(Pace, LateWakeUpsDoNotAddUp) {
  Pace pace(1);
  const Seconds start = pace.now();
  for (int i = 0; i < 100; ++i) {
    pace.advance({500e-6});
    pace.catch_up();
  }
  // Every sleep is some tens of microseconds late; together they would be several milliseconds.
  EXPECT_GE((pace.position() - start).value, 49e-3);
  EXPECT_LT((pace.position() - start).value, 10.0);
}

TEST(Pace, AnIdleRankBeginsWhenItIsAsked) {
  Pace pace(1);
  pace.advance({1e-3});
  pace.catch_up();
  const Seconds late = pace.now() + Seconds{5e-3};
  while (pace.now() < late) continue;
  pace.advance({1e-3});
  EXPECT_GE(pace.position().value, late.value);  // not right behind the first
}

TEST(Pace, WaitingForAMomentAndCallingMeanwhile) {
  Pace pace(1);
  const Seconds moment = pace.now() + Seconds{8e-3};
  pace.advance_to(moment);
  pace.advance_to(moment - Seconds{1e-3});  // never backwards
  int calls = 0;
  pace.catch_up([&] { ++calls; });
  EXPECT_GE(pace.now(), moment);
  EXPECT_GE(calls, 1);
}

TEST(Pace, FactorZeroIsFree) {
  Pace pace(0);
  EXPECT_FALSE(pace.runs());
  const Seconds start = pace.now();
  pace.advance({1e9});
  pace.advance_to({1e12});
  pace.catch_up();
  EXPECT_LT((pace.now() - start).value, 10);
}

}  // namespace
}  // namespace plumbline
