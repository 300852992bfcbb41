// The fewest GPUs against trying every count.
#include "analysis/size/fewest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

namespace plumbline::fewest_test {
namespace {

using testing::ElementsAre;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(CountLadder, HasWholeNodesWithSmallFactors) {
  EXPECT_THAT(count_ladder(8, 200),
              ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192));
  EXPECT_THAT(count_ladder(4, 20), ElementsAre(1, 2, 4, 8, 12, 16, 20));
  EXPECT_EQ(count_ladder(8, 131072).back(), 131072);
}

struct Tried {
  std::set<int> counts;
  int fewest = 0;
};

Tried fewest(const std::vector<int>& counts, double days, int guess, const std::function<double(int)>& of) {
  Tried tried;
  FewestQuestion question{counts, days, {}, guess};
  question.days_of = [&](int gpus) {
    tried.counts.insert(gpus);
    return of(gpus);
  };
  tried.fewest = fewest_in_time(question);
  return tried;
}

int by_trying_all(const std::vector<int>& counts, double days, const std::function<double(int)>& of) {
  for (const int gpus : counts) {
    if (of(gpus) <= days) return gpus;
  }
  return 0;
}

// GPU-days grow with the count as GPUs^1.1: the answer has a closed form.
TEST(Fewest, EqualsAClosedFormInFewTries) {
  const std::vector<int> counts = count_ladder(8, 131072);
  for (const double work : {3.0, 1e3, 4e4, 7e5}) {
    for (const int guess : {1, 512, 131072}) {
      const auto days = [&](int gpus) { return work / std::pow(gpus, 0.9); };
      const double exact = std::pow(work / 30, 1 / 0.9);
      const Tried tried = fewest(counts, 30, guess, days);
      EXPECT_GE(tried.fewest, exact);
      EXPECT_EQ(tried.fewest, by_trying_all(counts, 30, days)) << work << ' ' << guess;
      EXPECT_LE(tried.counts.size(), 9U) << work << ' ' << guess;
    }
  }
}

// Counts with factors 9, 14 and 15 lose time, below 64 nothing fits, above 8192 the batch has no layout.
TEST(Fewest, EqualsTryingAllWhereCountsDiffer) {
  const std::vector<int> counts = count_ladder(8, 65536);
  std::mt19937 random(7);
  int enough = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const double work = std::exp(std::uniform_real_distribution<>(3, 13)(random));
    const double loss = std::uniform_real_distribution<>(0, 0.3)(random);
    const int guess = counts[std::uniform_int_distribution<std::size_t>(0, counts.size() - 1)(random)];
    const auto days = [&](int gpus) {
      if (gpus < 64 || gpus > 8192) return kNever;
      return work / std::pow(gpus, 0.97) * (gpus % 9 == 0 || gpus % 7 == 0 || gpus % 15 == 0 ? 1 + loss : 1);
    };
    const int expected = by_trying_all(counts, 30, days);
    enough += expected > 0 ? 1 : 0;
    EXPECT_EQ(fewest(counts, 30, guess, days).fewest, expected) << work << ' ' << loss << ' ' << guess;
  }
  EXPECT_GT(enough, 100);
}

TEST(Fewest, SaysWhenNoneIsEnough) {
  EXPECT_EQ(fewest({8, 16, 32}, 1, 8, [](int) { return 2.0; }).fewest, 0);
  EXPECT_EQ(fewest({8, 16, 32}, 1, 8, [](int) { return kNever; }).fewest, 0);
  EXPECT_EQ(fewest({}, 1, 8, [](int) { return 0.5; }).fewest, 0);
}

}  // namespace
}  // namespace plumbline::fewest_test
