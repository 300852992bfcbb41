// Interval of the memory that steps will need: it holds 99 % of the needs of routings drawn from another
// seed, and is at most a quarter wider than these.
#include "analysis/memory/routing_interval.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::routing_interval_test {
namespace {

constexpr int kDrawn = 4000;
constexpr int kOthers = 1000;

RunConfig spread(int expert, double capacity, const char* routing) {
  RunConfig config;
  config.model = *find_preset("mixtral-8x7b");
  config.model.layers = 2;
  config.model.hidden = 64;
  config.model.heads = config.model.kv_heads = 4;
  config.model.head_dim = 16;
  config.model.ffn = 128;
  config.model.vocab = 256;
  config.batch = {.seq_length = 256, .micro_batch_size = 1, .global_batch_size = 4};
  config.parallel.world_size = 2;
  config.parallel.expert = expert;
  config.mixture.capacity_factor = capacity;
  config.mixture.routing = routing;
  return config;
}

TEST(RoutingInterval, HoldsWhatOtherRoutingsNeed) {
  struct Case {
    int expert;
    double capacity;
    const char* routing;
  };
  for (const Case& c :
       {Case{2, 0, "balanced"}, Case{2, 0, "zipf:0.5"}, Case{1, 1, "balanced"}, Case{2, 1.05, "zipf:0.3"}}) {
    SCOPED_TRACE(std::string(c.routing) + " ep" + std::to_string(c.expert));
    const RunConfig config = spread(c.expert, c.capacity, c.routing);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    const Schedule schedule = schedule_for(config);
    const MeanLoad load = mean_load(config, given_routing(config));
    const RoutingInterval interval =
        interval_of(needs_of_routings(config, schedule, load, kDrawn, 1234), Bytes{0});
    const std::vector<Bytes> others = needs_of_routings(config, schedule, load, kOthers, 99);
    const auto inside = std::count_if(others.begin(), others.end(), [&](Bytes need) {
      return interval.low <= need && need <= interval.high;
    });
    EXPECT_GE(inside, kOthers * 99 / 100);
    const std::int64_t width = others[kOthers * 995 / 1000 - 1].value - others[kOthers * 5 / 1000].value;
    EXPECT_GT(width, 0);
    EXPECT_LE(static_cast<double>(interval.high.value - interval.low.value),
              1.25 * static_cast<double>(width));
  }
}

TEST(RoutingInterval, SaysHowManyStepsHaveNotEnough) {
  std::vector<Bytes> needs;
  for (std::int64_t i = 1; i <= 1000; ++i) needs.push_back({i});
  const RoutingInterval interval = interval_of(needs, Bytes{900});
  EXPECT_EQ(interval.routings, 1000);
  EXPECT_EQ(interval.low.value, 3);
  EXPECT_EQ(interval.high.value, 998);
  EXPECT_DOUBLE_EQ(interval.over_budget, 0.1);
  EXPECT_DOUBLE_EQ(interval_of(needs, Bytes{0}).over_budget, 0);
}

}  // namespace
}  // namespace plumbline::routing_interval_test
