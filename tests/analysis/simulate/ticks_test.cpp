// Time in ticks: rounding and refusals.
#include "analysis/simulate/ticks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "schedules/generators.hpp"

namespace plumbline::ticks_test {
namespace {

TEST(Ticks, ArePicosecondsRoundedOnce) {
  EXPECT_EQ(ticks_of({1e-3}, "forward"), 1'000'000'000);
  EXPECT_EQ(ticks_of({0.6e-12}, "forward"), 1);
  EXPECT_EQ(ticks_of({0.4e-12}, "forward"), 0);
  EXPECT_EQ(seconds_of(ticks_of({0.137}, "forward")).value, 0.137);
}

TEST(Ticks, RefuseWhatIsNoTimeOrTooLong) {
  for (const double bad : {-1e-12, std::nan(""), std::numeric_limits<double>::infinity(), 4.7e6})
    EXPECT_THROW(ticks_of({bad}, "forward"), InputError) << bad;
  EXPECT_NO_THROW(ticks_of({4.6e6}, "forward"));
}

/// Sums do not run over: the first end beyond 53 days is noticed.
TEST(Ticks, AStepThatIsTooLongIsRefused) {
  const Schedule schedule = one_f_one_b(2, 40);
  const auto each = [](double seconds) {
    return uniform_costs(2, {.forward = {seconds}, .backward = {seconds}});
  };
  EXPECT_NEAR(simulate_makespan(schedule, each(5e4)).value, 41 * 1e5, 1);
  for (const double seconds : {6e4, 1e5, 1e6, 4.6e6}) {
    try {
      simulate(schedule, each(seconds));
      FAIL() << seconds;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("53 days"), std::string::npos) << error.what();
    }
  }
}

/// Ten thirds of a second are not three and a third in doubles, in any order.
TEST(Ticks, SumsDoNotDependOnTheOrder) {
  Costs costs = uniform_costs(1, {.forward = {1.0 / 3}, .backward = {0.1}});
  const Ticks one = ticks_of({1.0 / 3}, "forward") + ticks_of({0.1}, "backward");
  EXPECT_EQ(simulate_makespan(gpipe(1, 1000), costs), seconds_of(1000 * one));
  EXPECT_EQ(simulate_makespan(one_f_one_b(1, 1000), costs), seconds_of(1000 * one));
}

}  // namespace
}  // namespace plumbline::ticks_test
