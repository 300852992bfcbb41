// Bounds of many candidates at once against each of them, and searches against predicting everything, on
// drawn questions. PLUMBLINE_QUESTIONS draws more than the few of a quick run, PLUMBLINE_SEED others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/search/evaluator.hpp"
#include "analysis/search/search.hpp"
#include "analysis/search/search_space.hpp"
#include "analysis/step/software_of.hpp"
#include "bench/plan/plan.hpp"
#include "tests/analysis/search/exhaustive_search.hpp"

namespace plumbline::search_family_test {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoi(given);
}

class Draws {
 public:
  explicit Draws(unsigned seed) : generator_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> of) {
    return *(of.begin() + std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(generator_));
  }

 private:
  std::mt19937 generator_;
};

/// A small model on a few accelerators.
SearchRequest any_question(Draws& draws) {
  SearchRequest request;
  RunConfig& config = request.config;
  config.machine.software =
      draws.one_of<std::string>({"plumbline", "plumbline", "plumbline", "megatron-core", "megatron-bridge",
                                 "torchtitan", "torchtitan-2025", "deepspeed", "megatron-zero-bubble",
                                 "megatron-vocabulary", "nemo-2025", "megatron-2021"});
  config.model = *find_preset(draws.one_of<std::string>(
      {"gpt2-124m", "llama-3.1-8b", "mixtral-8x7b", "qwen3-8b", "qwen3-235b-a22b"}));
  config.model.layers = draws.one_of({2, 3, 4, 6});
  if (config.model.mixture)
    config.model.mixture.experts = config.model.mixture.top_k > 2 ? 8 : draws.one_of({2, 4});
  const bool context = draws.one_of({0, 0, 1}) == 1;
  request.limits.context = context ? 2 : 1;
  config.batch = {.seq_length = draws.one_of({512, 1024, 32768}),
                  .micro_batch_size = 1,
                  .global_batch_size = draws.one_of({4, 8, 12, 32})};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = draws.one_of({2, 4, 6, 8});
  config.machine.hardware =
      draws.one_of<std::string>({"a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb"});
  if (draws.one_of({0, 1}) == 1)
    config.machine.memory_budget = {std::int64_t{draws.one_of({2, 6, 20})} << 30U};
  if (!software_arguments(config.machine.software).pads_vocabulary)
    config.parallel.make_vocab_size_divisible_by = 1;
  request.top = 20;
  return request;
}

/// A question that has candidates.
SearchRequest legal_question(Draws& draws) {
  for (;;) {
    SearchRequest request = any_question(draws);
    RunConfig balanced = request.config;
    balanced.parallel.pp.layer_distribution = "balanced";
    if (!why_unpredictable(balanced, *find_hardware_preset(balanced.machine.hardware))) return request;
  }
}

/// Experts whose uneven rows take less time than even ones, by measured products.
SearchRequest of_uneven_rows() {
  SearchRequest request;
  RunConfig& config = request.config;
  config.machine.software = "megatron-core";
  config.machine.hardware = "b200-sxm-180gb";
  config.model = *find_preset("mixtral-8x7b");
  config.model.layers = 4;
  config.model.mixture.experts = 4;
  config.batch = {.seq_length = 1024, .micro_batch_size = 1, .global_batch_size = 32};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = 2;
  request.limits.context = 1;
  request.top = 20;
  return request;
}

std::string text_of(const RunConfig& config) {
  return fmt::format("{} {} layers {} gpus {} gbs {} on {}", config.machine.software, config.model.name,
                     config.model.layers, config.parallel.world_size, config.batch.global_batch_size,
                     config.machine.hardware);
}

std::string text_of(const SearchKeys& keys) {
  return fmt::format("tp {} pp {} dp {} mbs {} {} chunks {} vocabulary {} zero {} recompute {}/{}",
                     keys.tensor, keys.pipeline, keys.data, keys.micro_batch,
                     search_traits(keys.schedule).name, keys.chunks, static_cast<int>(keys.vocabulary),
                     keys.zero, static_cast<int>(keys.recompute), keys.recompute_layers);
}

/// True if selective recomputation differs from none.
bool selects(const RunConfig& config) {
  return software_of(config).recomputation.selective_operators ||
         !software_of(config).kernels.flash_attention;
}

TEST(SearchFamily, NothingFallsBelowItsBounds) {
  Draws draws(static_cast<unsigned>(from_environment("PLUMBLINE_SEED", 20261129)));
  std::size_t compared = 0;
  for (int i = 0; i < from_environment("PLUMBLINE_QUESTIONS", 8); ++i) {
    const SearchRequest request = i == 0 ? of_uneven_rows() : legal_question(draws);
    const HardwareProfile& hardware = *find_hardware_preset(request.config.machine.hardware);
    SearchSchedules schedules(step_for);
    Evaluator evaluator(request.config, hardware, schedules);
    SCOPED_TRACE(text_of(request.config));
    for (const SearchRegion& region : search_regions(request.config, request.limits)) {
      evaluator.begin_region();
      visit_region(request.config, region, selects(request.config), [&](const SearchFamily& family) {
        const auto bounds = evaluator.bounds(family, [](Bytes) { return true; });
        std::size_t places = 0;
        for_each_candidate(family, [&](const SearchKeys&) { ++places; });
        EXPECT_EQ(places, family.size());
        const auto floor = evaluator.floor(family);
        ASSERT_EQ(floor.has_value(), bounds.has_value());
        if (!bounds) return;
        std::size_t seen = 0;
        const auto open = [](const SearchKeys&, Bytes, Seconds) { return true; };
        evaluator.visit_open(family, *bounds, open,
                             [&](std::size_t place, const SearchKeys& keys, Bytes peak, Seconds at_least) {
                               EXPECT_EQ(place, seen++);
                               const auto exact = evaluator.bounds(keys);
                               ASSERT_TRUE(exact) << "a short schedule has no longer one";
                               EXPECT_LE(peak, exact->peak) << text_of(keys);
                               const Seconds step = evaluator.predicted(keys).time.step;
                               EXPECT_LE(exact->at_least, step) << text_of(keys);
                               EXPECT_LE(at_least, step) << text_of(keys);
                               const std::size_t variant = place % family.size_of_group();
                               EXPECT_LE(bounds->steps[variant], step);
                               EXPECT_LE(floor->at_least, step) << text_of(keys);
                               EXPECT_LE(floor->peak, exact->peak) << text_of(keys);
                               EXPECT_LE(bounds->peaks[variant], exact->peak) << text_of(keys);
                               ++compared;
                             });
        EXPECT_EQ(seen, family.size());
      });
    }
  }
  EXPECT_GT(compared, 1000u);
}

TEST(SearchFamily, ASearchFindsWhatPredictingEverythingFinds) {
  Draws draws(static_cast<unsigned>(from_environment("PLUMBLINE_SEED", 20261129)));
  int compared = 0;
  for (int i = 0; i < from_environment("PLUMBLINE_QUESTIONS", 3); ++i) {
    const SearchRequest request = legal_question(draws);
    SCOPED_TRACE(text_of(request.config));
    const std::vector<Candidate> all = exhaustive_search::all_candidates(request, selects(request.config));
    if (all.empty()) continue;
    const SearchResult result = search(request, exhaustive_search::hardware_of(request), step_for);
    exhaustive_search::expect_front_of_all(result, all);
    const bool fits = std::any_of(all.begin(), all.end(), [](const Candidate& c) { return c.fit.fits; });
    EXPECT_EQ(fits, !result.best.empty());
    if (fits) exhaustive_search::expect_best_of_all(result, all);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace plumbline::search_family_test
