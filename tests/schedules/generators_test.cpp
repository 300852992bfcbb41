// Every generator: valid, within its closed forms.
#include "schedules/generators.hpp"

#include <gtest/gtest.h>

#include "analysis/simulator.hpp"
#include "core/validate.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

constexpr StageCosts kUnit{.forward = {1}, .backward = {2}, .backward_input = {1}, .backward_weight = {1}};

TEST(Generators, FirstSlice) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      for (const Schedule& s : {gpipe(p, m), one_f_one_b(p, m)}) {
        const Schedule t = add_step_end(add_transfers(s), {true, true});
        ASSERT_NO_THROW(validate(s)) << s.name << p << m;
        ASSERT_NO_THROW(validate(t)) << s.name << p << m;
        Costs costs = uniform_costs(p, kUnit);
        EXPECT_DOUBLE_EQ(simulate(s, costs).makespan().value, 3.0 * (p + m - 1));
        EXPECT_DOUBLE_EQ(simulate(t, costs).makespan().value, 3.0 * (p + m - 1));
        costs.one_send_buffer = true;
        EXPECT_NO_THROW(simulate(t, costs));
      }
    }
  }
}

}  // namespace
}  // namespace plumbline
