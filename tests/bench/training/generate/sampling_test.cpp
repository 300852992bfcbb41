// Choice of tokens: greedy, limits, and the distribution of draws.
#include "bench/training/generate/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline::generation::sampling_test {
namespace {

const std::vector<float> kLogits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

double probability(std::size_t id, double temperature) {
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / temperature);
  return std::exp(kLogits[id] / temperature) / sum;
}

std::set<std::int32_t> drawn_ids(Sampling sampling) {
  std::set<std::int32_t> ids;
  for (std::int64_t i = 0; i < 2000; ++i) ids.insert(choose(kLogits, sampling, {0, i}).id);
  return ids;
}

TEST(Sampling, GreedyTakesTheFirstOfEqualLogits) {
  const Choice choice = choose(kLogits, {}, {});
  EXPECT_EQ(choice.id, 1);
  EXPECT_NEAR(choice.log_probability, std::log(probability(1, 1)), 1e-12);
}

TEST(Sampling, LimitsTheIdsThatAreDrawn) {
  EXPECT_EQ(drawn_ids({.temperature = 1, .top_k = 3}), (std::set<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(drawn_ids({.temperature = 1, .top_k = 1}), (std::set<std::int32_t>{1}));
  // Ids 1 and 3 have 0.379 each and id 4 has 0.139: the third is needed above 0.757.
  EXPECT_EQ(drawn_ids({.temperature = 1, .top_p = 0.75}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(drawn_ids({.temperature = 1, .top_p = 0.76}), (std::set<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(drawn_ids({.temperature = 1}), (std::set<std::int32_t>{0, 1, 2, 3, 4}));
}

TEST(Sampling, DrawsInProportionToProbabilities) {
  constexpr std::int64_t kDraws = 40000;
  for (const double temperature : {0.7, 1.0, 1.5}) {
    std::vector<double> share(kLogits.size());
    for (std::int64_t i = 0; i < kDraws; ++i) {
      const Choice choice = choose(kLogits, {.temperature = temperature}, {i, 7});
      share[static_cast<std::size_t>(choice.id)] += 1.0 / kDraws;
    }
    for (std::size_t id = 0; id < kLogits.size(); ++id)  // five standard deviations
      EXPECT_NEAR(share[id], probability(id, temperature), 5 * std::sqrt(0.25 / kDraws)) << temperature;
  }
}

TEST(Sampling, DependsOnSeedSequenceAndPosition) {
  const auto draws = [](std::uint64_t seed, std::int64_t sequence) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < 20; ++i)
      ids.push_back(choose(kLogits, {.temperature = 1, .seed = seed}, {sequence, i}).id);
    return ids;
  };
  EXPECT_EQ(draws(1, 2), draws(1, 2));
  EXPECT_NE(draws(1, 2), draws(2, 2));
  EXPECT_NE(draws(1, 2), draws(1, 3));
}

/// Ids that the limits leave, from a sorted vocabulary.
std::vector<std::int32_t> sorted_ids(const std::vector<float>& logits, const Sampling& limits) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return logit(a) > logit(b); });
  if (limits.top_k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(limits.top_k)));
  double sum = 0, reached = 0;
  for (const std::int32_t id : ids) sum += std::exp(logit(id) / limits.temperature);
  std::size_t kept = 0;
  while (kept < ids.size() && reached < limits.top_p * sum)
    reached += std::exp(logit(ids[kept++]) / limits.temperature);
  ids.resize(kept);
  return ids;
}

/// A draw in the lower half of the probabilities falls on an id of the upper half of a sorted vocabulary.
TEST(Sampling, DrawsFromALargeVocabularyAsFromASortedOne) {
  constexpr std::size_t kVocabulary = 3001;
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(kVocabulary);
  for (float& each : logits) each = std::round(normal(random) * 8) / 8;  // some are equal
  for (const Sampling& limits :
       {Sampling{.temperature = 1}, Sampling{.temperature = 0.7, .top_k = 50},
        Sampling{.temperature = 1.3, .top_p = 0.4}, Sampling{.temperature = 1, .top_k = 400, .top_p = 0.9},
        Sampling{.temperature = 2, .top_k = 5000}}) {
    const std::vector<std::int32_t> ids = sorted_ids(logits, limits);
    double sum = 0;
    for (const std::int32_t id : ids)
      sum += std::exp(logits[static_cast<std::size_t>(id)] / limits.temperature);
    for (std::int64_t i = 0; i < 200; ++i) {
      // The stream over two ids of equal weight tells the half in which the draw is.
      const bool upper = choose(std::vector<float>{1, 1}, {.temperature = 1}, {3, i}).id == 1;
      const std::int32_t id = choose(logits, limits, {3, i}).id;
      const auto at = std::find(ids.begin(), ids.end(), id);
      ASSERT_NE(at, ids.end()) << "beyond the limits";
      double before = 0;
      for (auto each = ids.begin(); each != at; ++each)
        before += std::exp(logits[static_cast<std::size_t>(*each)] / limits.temperature);
      const double after = before + std::exp(logits[static_cast<std::size_t>(id)] / limits.temperature);
      if (upper)
        EXPECT_GE(after, sum / 2 * (1 - 1e-12));
      else
        EXPECT_LE(before, sum / 2 * (1 + 1e-12));
    }
  }
}

TEST(Sampling, RefusesLogitsThatAreNoNumbers) {
  EXPECT_THROW(choose(std::vector<float>{1, std::nanf("")}, {}, {}), Error);
}

}  // namespace
}  // namespace plumbline::generation::sampling_test
