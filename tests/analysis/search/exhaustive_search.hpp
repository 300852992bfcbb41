// A search by predicting every candidate, and the comparison with a search.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/search/search.hpp"
#include "analysis/search/search_space.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"

namespace plumbline::exhaustive_search {

inline const HardwareProfile& hardware_of(const SearchRequest& request) {
  return *find_hardware_preset(request.config.machine.hardware);
}

/// Every candidate's prediction, in the order of the search.
inline std::vector<Candidate> all_candidates(const SearchRequest& request, bool selective) {
  std::vector<Candidate> all;
  RunConfig config = request.config;
  for (const SearchRegion& region : search_regions(config, request.limits)) {
    visit_region(request.config, region, selective, [&](const SearchFamily& family) {
      for_each_candidate(family, [&](const SearchKeys& keys) {
        set_keys(keys, config);
        try {
          const Prediction prediction = predict(config, step_for(config), hardware_of(request));
          all.push_back({keys, prediction.memory.peak, prediction.time, prediction.fit,
                         prediction.device ? prediction.device->fullest().total() : Bytes{},
                         prediction.throughput});
        } catch (const InputError&) {
          // The schedule does not allow the sizes.
        }
      });
    });
  }
  return all;
}

inline void expect_same(const Candidate& found, const Candidate& expected) {
  EXPECT_EQ(found.time.step, expected.time.step);
  EXPECT_EQ(found.peak, expected.peak);
  EXPECT_EQ(found.keys.tensor, expected.keys.tensor);
  EXPECT_EQ(found.keys.pipeline, expected.keys.pipeline);
  EXPECT_EQ(found.keys.schedule, expected.keys.schedule);
  EXPECT_EQ(found.keys.zero, expected.keys.zero);
  EXPECT_EQ(found.keys.context, expected.keys.context);
  EXPECT_EQ(found.keys.cp_comm_type, expected.keys.cp_comm_type);
  EXPECT_EQ(found.keys.head_ranks, expected.keys.head_ranks);
  EXPECT_EQ(found.keys.recompute_layers, expected.keys.recompute_layers);
  EXPECT_EQ(found.keys.expert, expected.keys.expert);
  EXPECT_EQ(found.keys.expert_tensor, expected.keys.expert_tensor);
  EXPECT_EQ(found.keys.dispatcher, expected.keys.dispatcher);
}

/// The first of `result.best` against all candidates, whose fitting ones are sorted.
inline void expect_best_of_all(const SearchResult& result, std::vector<Candidate> all) {
  ASSERT_EQ(result.configurations, all.size());
  std::erase_if(all, [](const Candidate& c) { return !c.fit.fits; });
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.time.step != b.time.step ? a.time.step < b.time.step : a.peak < b.peak;
  });
  ASSERT_GE(all.size(), result.best.size());
  ASSERT_FALSE(result.best.empty());
  for (std::size_t i = 0; i < result.best.size(); ++i) expect_same(result.best[i], all[i]);
}

/// The front against all candidates.
inline void expect_front_of_all(const SearchResult& result, const std::vector<Candidate>& all) {
  std::vector<Candidate> front;
  for (const Candidate& c : all) {
    const bool beaten = std::any_of(all.begin(), all.end(), [&](const Candidate& o) {
      return o.peak <= c.peak && o.time.step <= c.time.step &&
             (o.peak < c.peak || o.time.step < c.time.step || &o < &c);
    });
    if (!beaten) front.push_back(c);
  }
  std::sort(front.begin(), front.end(),
            [](const Candidate& a, const Candidate& b) { return a.peak < b.peak; });
  ASSERT_EQ(result.front.size(), front.size());
  for (std::size_t i = 0; i < front.size(); ++i) expect_same(result.front[i], front[i]);
}

}  // namespace plumbline::exhaustive_search
