// A replica's rollout against a simulation step by step, and the distribution of responses against its
// moments.
#include "analysis/reinforcement/rollout_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "analysis/reinforcement/response_lengths.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::rollout_time_test {
namespace {

Seconds step_price(std::int64_t sequences, double length) {
  return {1.0 + 0.1 * static_cast<double>(sequences) + 0.001 * static_cast<double>(sequences) * length};
}

/// Every decoding step on its own.
double by_steps(const std::vector<std::int64_t>& lengths, std::int64_t prompt, std::int64_t at_once,
                double prefill) {
  struct Live {
    std::int64_t left, length;
  };
  std::vector<Live> live;
  std::size_t next = 0;
  double time = 0;
  while (next < lengths.size() || !live.empty()) {
    while (next < lengths.size() && static_cast<std::int64_t>(live.size()) < at_once) {
      live.push_back({lengths[next++] - 1, prompt + 1});
      time += prefill;
    }
    std::erase_if(live, [](const Live& one) { return one.left == 0; });
    if (live.empty()) continue;
    if (static_cast<std::int64_t>(live.size()) < at_once && next < lengths.size()) continue;
    double sum = 0;
    for (const Live& one : live) sum += static_cast<double>(one.length);
    const auto count = static_cast<std::int64_t>(live.size());
    time += step_price(count, sum / static_cast<double>(count)).value;
    for (Live& one : live) --one.left, ++one.length;
    std::erase_if(live, [](const Live& one) { return one.left == 0; });
  }
  return time;
}

TEST(ReplicaRollout, TakesTheSumOfItsSteps) {
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::int64_t> lengths(1 + random() % 30);
    for (std::int64_t& length : lengths) length = 1 + static_cast<std::int64_t>(random() % 60);
    const auto at_once = static_cast<std::int64_t>(1 + random() % 12);
    const RolloutPrices prices{step_price, {0.5}};
    const double expected = by_steps(lengths, 20, at_once, 0.5);
    const ReplicaRollout made = replica_rollout(lengths, 20, at_once, prices);
    // Lengths between two ends are taken at their middle, half a token early.
    EXPECT_NEAR(made.time.value, expected, 0.01 * expected) << i;
  }
}

TEST(ReplicaRollout, TakesOneAfterAnother) {
  const std::vector<std::int64_t> lengths = {3, 1, 2};
  const RolloutPrices prices{[](std::int64_t, double) { return Seconds{1}; }, {10}};
  EXPECT_DOUBLE_EQ(replica_rollout(lengths, 5, 1, prices).time.value, 30 + 2 + 0 + 1);
  EXPECT_DOUBLE_EQ(replica_rollout(lengths, 5, 3, prices).time.value, 30 + 2);
}

RunConfig config_of(double mean, double sigma, std::int64_t most) {
  RunConfig config;
  config.generation.task = RunTask::grpo;
  config.generation.max_new_tokens = most;
  config.reinforcement.prompts = 100;
  config.reinforcement.group_size = 50;
  config.reinforcement.rollout.length_mean = mean;
  config.reinforcement.rollout.length_sigma = sigma;
  return config;
}

double mean_of(const std::vector<std::int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
}

TEST(ResponseLengths, HaveTheMeanAndSpreadOfTheConfiguration) {
  for (const double sigma : {0.0, 0.3, 0.8}) {
    const std::vector<std::int64_t> lengths = response_lengths(config_of(500, sigma, 1'000'000));
    EXPECT_NEAR(mean_of(lengths), 500, 5) << sigma;
    double sum = 0, squares = 0;
    for (const std::int64_t length : lengths) {
      sum += std::log(static_cast<double>(length));
      squares += std::log(static_cast<double>(length)) * std::log(static_cast<double>(length));
    }
    const double n = static_cast<double>(lengths.size());
    EXPECT_NEAR(std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n))), sigma, 0.01) << sigma;
  }
}

TEST(ResponseLengths, AreCutAndDealtInAnyOrder) {
  const std::vector<std::int64_t> cut = response_lengths(config_of(500, 0.8, 600));
  EXPECT_EQ(*std::max_element(cut.begin(), cut.end()), 600);
  EXPECT_LT(mean_of(cut), 500);
  EXPECT_FALSE(std::is_sorted(cut.begin(), cut.end()));
  EXPECT_EQ(cut, response_lengths(config_of(500, 0.8, 600)));
  EXPECT_DOUBLE_EQ(mean_of(response_lengths(config_of(0, 0, 600))), 600);
}

TEST(NormalQuantile, InvertsTheDistribution) {
  for (const double z : {-4.0, -1.2, 0.0, 0.3, 2.5})
    EXPECT_NEAR(normal_quantile(std::erfc(-z / std::sqrt(2.0)) / 2), z, 1e-9);
}

}  // namespace
}  // namespace plumbline::rollout_time_test
