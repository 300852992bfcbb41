// A search against predicting everything, and the limits of a configuration.
#include "analysis/search/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/search/search_space.hpp"
#include "analysis/search/sensitivity.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "tests/analysis/search/exhaustive_search.hpp"

namespace plumbline::search_test {
namespace {

using exhaustive_search::all_candidates;
using exhaustive_search::expect_best_of_all;
using exhaustive_search::expect_front_of_all;
using exhaustive_search::expect_same;
using exhaustive_search::hardware_of;

SearchRequest small_request() {
  SearchRequest request;
  RunConfig& config = request.config;
  config.model = *find_preset("gpt2-124m");
  config.model.layers = 4;
  config.batch = {.seq_length = 1024, .micro_batch_size = 1, .global_batch_size = 4};
  config.numerics.precision = DType::bf16;
  config.parallel.world_size = 4;
  config.machine.hardware = "a100-sxm-80gb";
  request.top = 7;
  return request;
}

const HardwareProfile& hardware() {
  return *find_hardware_preset("a100-sxm-80gb");
}

/// The small request for a software, with a vocabulary that it does not pad where it pads none.
SearchRequest small_request_of(const std::string& software) {
  SearchRequest request = small_request();
  request.config.machine.software = software;
  if (!software_arguments(software).pads_vocabulary) request.config.parallel.make_vocab_size_divisible_by = 1;
  return request;
}

SearchResult searched(const SearchRequest& request) {
  return search(request, hardware_of(request), step_for);
}

// DeepSpeed has states on the host from ZeRO 1 on, parameters with ZeRO 3.
TEST(Search, FindsTheSameWithStatesOnTheHost) {
  const std::tuple<const char*, double, bool, int> cases[] = {{"megatron-core", 0.5, false, 0},
                                                              {"torchtitan", 1, true, 3},
                                                              {"deepspeed", 1, false, 1},
                                                              {"deepspeed", 1, true, 3}};
  for (const auto& [software, fraction, params, least] : cases) {
    SearchRequest request = small_request_of(software);
    request.config.offload.optimizer_fraction = fraction;
    request.config.offload.params = params;
    const std::vector<Candidate> all = all_candidates(request, std::string(software) == "torchtitan");
    expect_best_of_all(searched(request), all);
    for (const Candidate& each : all) EXPECT_GE(each.keys.zero, each.keys.data == 1 ? 0 : least) << software;
  }
}

TEST(Search, FindsWhatPredictingEverythingFinds) {
  for (const char* software : {"plumbline", "megatron-core", "torchtitan"}) {
    for (const std::int64_t budget : {std::int64_t{0}, std::int64_t{1800} << 20U}) {
      if (budget > 0 && std::string(software) != "plumbline") continue;
      SearchRequest request = small_request_of(software);
      request.config.machine.memory_budget = {budget};
      const SearchResult result = searched(request);
      std::vector<Candidate> all = all_candidates(request, std::string(software) == "torchtitan");
      ASSERT_EQ(result.configurations, all.size()) << software;
      std::vector<Candidate> best;
      std::copy_if(all.begin(), all.end(), std::back_inserter(best),
                   [](const Candidate& c) { return c.fit.fits; });
      std::stable_sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
        return a.time.step != b.time.step ? a.time.step < b.time.step : a.peak < b.peak;
      });
      if (best.size() > 7) best.resize(7);
      ASSERT_EQ(result.best.size(), best.size());
      for (std::size_t i = 0; i < best.size(); ++i) expect_same(result.best[i], best[i]);
      expect_front_of_all(result, all);
      EXPECT_LT(result.simulated, result.configurations / 4) << "the bounds rule out most";
    }
  }
}

/// FP8 is the configuration's: its casts, weights and peaks are in every bound.
TEST(Search, BoundsHoldInEightBits) {
  struct Case {
    const char* software;
    const char* model;
    Fp8Recipe recipe;
  };
  for (const Case& c : {Case{"plumbline", "gpt2-124m", Fp8Recipe::delayed},
                        {"megatron-core", "gpt2-124m", Fp8Recipe::tensorwise},
                        {"megatron-bridge", "mixtral-8x7b", Fp8Recipe::mxfp8}}) {
    SCOPED_TRACE(c.software);
    SearchRequest request = small_request();
    request.config.machine.software = c.software;
    request.config.model = *find_preset(c.model);
    request.config.model.layers = 4;
    if (request.config.model.mixture) request.config.model.mixture.experts = 4;
    request.config.machine.hardware = "b200-sxm-180gb";
    request.config.numerics.fp8.format = Fp8Format::hybrid;
    request.config.numerics.fp8.recipe = c.recipe;
    expect_best_of_all(searched(request), all_candidates(request, false));
  }
}

/// Chunks that do not divide the layers are tried in powers of two, as a balanced layout.
TEST(Search, SplitsAPrimeNumberOfLayersIntoChunks) {
  SearchRequest request = small_request();
  request.config.machine.software = "megatron-core";
  request.config.model.layers = 13;
  const std::vector<Candidate> all = all_candidates(request, false);
  std::map<int, std::set<int>> chunks;
  for (const Candidate& c : all) {
    if (c.keys.chunks == 1) continue;
    chunks[c.keys.pipeline].insert(c.keys.chunks);
    EXPECT_TRUE(c.keys.balanced);
  }
  EXPECT_EQ(chunks, (std::map<int, std::set<int>>{{2, {2, 4}}, {4, {2}}}));
  expect_best_of_all(searched(request), all);
}

/// Context parallelism is searched, too: it wins when a rank's memory is the bottleneck.
TEST(Search, SharesSequencesWhereOneIsTooLong) {
  SearchRequest request = small_request();
  request.config.model.layers = 2;
  request.config.model.position.max = 65536;
  request.config.batch = {.seq_length = 65536, .micro_batch_size = 1, .global_batch_size = 1};
  request.config.machine.memory_budget = {std::int64_t{9} << 30U};
  request.top = 5;
  EXPECT_GT(searched(request).best.front().keys.context, 1) << "65536 tokens ask for it";
  request.limits.context = 1;
  EXPECT_TRUE(searched(request).best.empty() || searched(request).best.front().keys.context == 1);
  request.limits.context = 4;
  const SearchResult result = searched(request);
  std::vector<Candidate> best = all_candidates(request, false);
  std::set<CpCommType> types;
  for (const Candidate& c : best) {
    if (c.keys.context > 1) types.insert(c.keys.cp_comm_type);
  }
  EXPECT_EQ(types.size(), 4u);
  expect_best_of_all(result, std::move(best));
  EXPECT_GT(result.best.front().keys.context, 1);
}

/// A new row is a new schedule here: only its traits decide. The traits of older ones are fixed below.
TEST(Search, TriesEveryScheduleThatSizesOrderTheDefaultFirst) {
  std::vector<std::string_view> tried;
  for (const ScheduleTraits& traits : search_schedules()) tried.push_back(traits.name);
  ASSERT_FALSE(tried.empty());
  EXPECT_EQ(tried.front(), "1f1b");
  std::set<std::string_view> expected;
  for (const ScheduleTraits& traits : known_schedules()) {
    if (traits.searched()) expected.insert(traits.name);
  }
  EXPECT_THAT(tried, testing::UnorderedElementsAreArray(expected));
  for (const char* name :
       {"gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipev"})
    EXPECT_TRUE(expected.contains(name)) << name;
  for (const char* name : {"zb-auto", "vocab-1", "vocab-2", "interlaced", "v-half-vocab-1", "v-half-vocab-2",
                           "nemo-2504", "abeja", "nemo-13065", "bubble-fill"})
    EXPECT_FALSE(expected.contains(name)) << name;
}

TEST(Search, ProposesSchedulesThatTheSoftwareHas) {
  const std::map<std::string, std::set<std::string_view>> has = {
      {"megatron-core", {"1f1b", "interleaved"}},
      {"megatron-zero-bubble", {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}},
      {"megatron-vocabulary", {"1f1b", "interleaved", "vocab-1", "vocab-2", "interlaced"}},
      {"torchtitan", {"gpipe", "1f1b", "interleaved", "zb-v"}},
      {"deepspeed", {}}};  // its keys have no pipeline
  for (const auto& [software, wanted] : has) {
    const SearchRequest request = small_request_of(software);
    std::set<std::string_view> found;
    for (const Candidate& c : all_candidates(request, false)) {
      if (c.keys.pipeline > 1)
        found.insert(find_with_passes(search_traits(c.keys.schedule).name, c.keys.vocabulary)->name);
    }
    EXPECT_EQ(found, wanted) << software;
  }
}

TEST(Search, ProposesSizesThatTheSoftwareHas) {
  for (const char* const software : {"llm-foundry", "torchtitan"}) {
    const SearchRequest request = small_request_of(software);
    const std::vector<Candidate> found = all_candidates(request, false);
    const bool split = std::any_of(found.begin(), found.end(), [](const Candidate& c) {
      return c.keys.tensor * c.keys.pipeline * c.keys.context * c.keys.expert > 1;
    });
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(split, std::string(software) == "torchtitan") << software;
  }
  using Split = void (*)(RunConfig&);
  const std::pair<const char*, Split> splits[] = {
      {"tensor_model_parallel_size", [](RunConfig& c) { c.parallel.tensor = 2; }},
      {"pipeline_model_parallel_size", [](RunConfig& c) { c.parallel.pipeline = 2; }},
      {"context_parallel_size", [](RunConfig& c) { c.parallel.context = 2; }},
      {"expert_model_parallel_size", [](RunConfig& c) { c.parallel.expert = 2; }}};
  for (const auto& [key, split] : splits) {
    RunConfig config = small_request_of("llm-foundry").config;
    EXPECT_EQ(why_unsearched(config).value_or(""), "");
    split(config);
    EXPECT_EQ(why_unsearched(config).value_or(""),
              std::string(key) + ": found 2 with llm-foundry, whose only parallelism is FSDP; expected 1");
    config.machine.software = "torchtitan";
    config.model.vocab = 50304;                                      // even
    config.parallel.sequence_parallel = config.parallel.tensor > 1;  // which it has always
    EXPECT_EQ(why_unsearched(config).value_or(""), "");
  }
}

TEST(Search, ProposesZeroStagesThatTheSoftwareHas) {
  const std::map<std::string, std::set<int>> has = {
      {"megatron-2021", {0}},        {"megatron-core-2023", {0, 1}}, {"megatron-core", {0, 1}},
      {"megatron-bridge-fsdp", {3}}, {"deepspeed", {0, 1, 2, 3}},    {"torchtitan", {3}},
      {"plumbline", {0, 1, 2, 3}}};
  for (const auto& [software, wanted] : has) {
    const SearchRequest request = small_request_of(software);
    std::set<int> found;
    for (const Candidate& c : all_candidates(request, false)) found.insert(c.keys.zero);
    EXPECT_EQ(found, wanted) << software;
  }
}

/// Experts with their own sharding, with every dispatcher: nothing that the software would refuse.
TEST(Search, SpreadsTheExpertsOfAMixture) {
  const std::map<std::string, bool> gathers = {
      {"plumbline", true}, {"megatron-core", true}, {"torchtitan-2025", false}};
  for (const auto& [software, gather] : gathers) {
    SCOPED_TRACE(software);
    SearchRequest request = small_request();
    request.config.machine.software = software;
    request.config.model = *find_preset("mixtral-8x7b");
    request.config.model.layers = 2;
    request.config.model.mixture.experts = 4;
    const SearchResult result = searched(request);
    // torchtitan's selective recomputation differs from none.
    const std::vector<Candidate> all = all_candidates(request, !gather);
    std::set<int> sizes;
    std::set<int> slices;
    std::set<TokenDispatcher> dispatchers;
    for (const Candidate& c : all) {
      sizes.insert(c.keys.expert);
      slices.insert(c.keys.expert_tensor);
      dispatchers.insert(c.keys.dispatcher);
    }
    EXPECT_EQ(sizes, (std::set{1, 2, 4}));
    // torchtitan's experts are sliced as the other layers (0), or not at all.
    EXPECT_EQ(slices, gather ? (std::set{0, 1, 2}) : (std::set{0, 1}));
    std::set<TokenDispatcher> wanted = {TokenDispatcher::automatic, TokenDispatcher::alltoall};
    if (gather) wanted.insert(TokenDispatcher::allgather);
    EXPECT_EQ(dispatchers, wanted);
    expect_best_of_all(result, all);
    if (!gather) continue;
    request.limits.expert = 1;
    request.config.parallel.ep.token_dispatcher = TokenDispatcher::allgather;
    const SearchResult less = searched(request);
    EXPECT_LT(less.configurations, result.configurations);
    ASSERT_FALSE(less.best.empty());
    for (const Candidate& c : less.best) EXPECT_EQ(c.keys.dispatcher, TokenDispatcher::allgather);
  }
}

TEST(Search, NamedModulesAreSearchedOrRefused) {
  struct Case {
    const char* software;
    const char* refusal;  // empty: none
  };
  for (const Case& c : {Case{"plumbline", ""}, {"megatron-core", ""}, {"deepspeed", "recompute_modules: "}}) {
    SCOPED_TRACE(c.software);
    SearchRequest request = small_request();
    request.config.machine.software = c.software;
    request.config.parallel.make_vocab_size_divisible_by = 1;
    const SearchResult plain = searched(request);
    request.config.recompute.modules = {.layernorm = true};
    if (*c.refusal != '\0') {
      EXPECT_THAT([&] { searched(request); },
                  testing::ThrowsMessage<InputError>(testing::HasSubstr(c.refusal)));
      continue;
    }
    EXPECT_GT(searched(request).configurations, plain.configurations);
  }
}

TEST(Search, ThreadsChangeNothing) {
  SearchRequest request = small_request();
  const SearchResult one = searched(request);
  request.threads = 3;
  const SearchResult three = searched(request);
  ASSERT_EQ(one.best.size(), three.best.size());
  ASSERT_EQ(one.front.size(), three.front.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) expect_same(one.best[i], three.best[i]);
  for (std::size_t i = 0; i < one.front.size(); ++i) expect_same(one.front[i], three.front[i]);
}

TEST(Search, AVocabularyMadeLargeMovesLayersOrIsCut) {
  SearchRequest request = small_request();
  request.config.model.vocab = 500'000;
  request.config.model.embedding.tied = false;
  request.config.model.layers = 8;
  // One head and seven sequences leave nothing but a pipeline.
  request.config.model.heads = request.config.model.kv_heads = 1;
  request.config.model.head_dim = request.config.model.hidden;
  request.config.batch.global_batch_size = 7;
  request.config.machine.memory_budget = {std::int64_t{1} << 40U};
  request.top = 10000;
  const SearchResult result = searched(request);
  std::set<std::string> placements;
  Seconds even{0};
  Seconds other{0};
  for (const Candidate& c : result.best) {
    if (c.keys.pipeline < 4 || c.keys.schedule != 0) continue;
    const bool moved = c.keys.balanced || c.keys.vocabulary != VocabPasses::none;
    placements.insert(c.keys.balanced ? "balanced" : std::to_string(static_cast<int>(c.keys.vocabulary)));
    Seconds& best = moved ? other : even;
    if (best.value == 0) best = c.time.step;
  }
  EXPECT_EQ(placements.size(), 5U);
  EXPECT_LT(other, even);
}

TEST(Search, LessMemoryNeverHelps) {
  SearchRequest request = small_request();
  Seconds before{0};
  for (const std::int64_t mebibytes : {80000, 4000, 2000, 1000}) {
    request.config.machine.memory_budget = {mebibytes << 20U};
    const SearchResult result = searched(request);
    if (result.best.empty()) break;
    EXPECT_GE(result.best.front().time.step, before);
    before = result.best.front().time.step;
  }
  request.config.machine.memory_budget = {1000};
  EXPECT_TRUE(searched(request).best.empty());
}

TEST(Sensitivity, LongStepsAreBounded) {
  RunConfig config = small_request().config;
  config.model = *find_preset("gpt2-1558m");
  config.batch = {.seq_length = 1024, .micro_batch_size = 1, .global_batch_size = 8192};
  config.parallel.world_size = config.parallel.pipeline = 16;
  config.parallel.tensor = 1;
  const Limits limits = what_limits(config, hardware(), step_for);
  EXPECT_FALSE(limits.hardware.empty()) << "1f1b repeats itself";
  EXPECT_NE(std::find(limits.not_varied.begin(), limits.not_varied.end(), "pipeline_schedule gpipe"),
            limits.not_varied.end());
  for (const ChangedKey& change : limits.changes) EXPECT_NE(change.what, "pipeline_schedule gpipe");
}

TEST(Sensitivity, FasterHardwareIsNotSlowerAndRatesAddUp) {
  RunConfig config = small_request().config;
  config.model = *find_preset("gpt2-1558m");
  config.model.heads = config.model.kv_heads = 20;
  config.model.head_dim = 80;
  config.batch = {.seq_length = 1024, .micro_batch_size = 4, .global_batch_size = 64};
  config.parallel.world_size = 8;
  config.parallel.tensor = config.parallel.pipeline = 2;
  const Limits limits = what_limits(config, hardware(), step_for);
  const std::set<std::string> better_when_higher = {"peak_16bit",     "bandwidth",         "gemm_share",
                                                    "node_bandwidth", "message_bandwidth", "nic_bandwidth",
                                                    "stream_share"};
  double sum = 0;
  for (const Elasticity& e : limits.hardware) {
    const double most = better_when_higher.count(e.constant) != 0 ? 1e-9 : 1e9;
    EXPECT_LE(e.elasticity, most) << e.constant;
    sum += std::abs(e.elasticity);
  }
  EXPECT_GT(sum, 0.8);
  const Prediction now = predict(config, step_for(config), hardware());
  EXPECT_EQ(limits.step, now.time.step);
  EXPECT_EQ(limits.peak, now.memory.peak);
  ASSERT_FALSE(limits.changes.empty());
  // A change is a prediction of its own.
  for (const ChangedKey& change : limits.changes) {
    if (change.what != "zero_stage 0 -> 3") continue;
    config.parallel.dp.zero_stage = 3;
    EXPECT_EQ(change.step, predict(config, step_for(config), hardware()).time.step);
  }
}

// Whoever watches a search sees candidates that fit, each faster than the one before; the last is the result.
TEST(Search, TellsOfFasterAndFasterCandidates) {
  SearchRequest request = small_request();
  std::vector<Candidate> told;
  request.found = [&](const Candidate& candidate) { told.push_back(candidate); };
  const SearchResult result = search(request, hardware_of(request), step_for);
  ASSERT_FALSE(told.empty());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_TRUE(told[i].fit.fits);
    EXPECT_TRUE(i == 0 || told[i].time.step < told[i - 1].time.step);
  }
  EXPECT_EQ(told.back().time.step, result.best.front().time.step);
}

// A search that is stopped says how much faster others can be, unless it has not looked at all of them.
TEST(Search, StoppedEarlyBoundsWhatItHasNotSeen) {
  SearchRequest request = small_request();
  const SearchResult whole = search(request, hardware_of(request), step_for);
  int looks = 0;
  request.stopped = [&] { return ++looks > 1'000'000; };
  ASSERT_TRUE(search(request, hardware_of(request), step_for).complete);
  const int all = looks;
  int bounded = 0;
  for (const int last : {1, all / 4, all / 2, 3 * all / 4, all - 10, all - 2}) {
    looks = 0;
    request.stopped = [&] { return ++looks > last; };
    const SearchResult result = search(request, hardware_of(request), step_for);
    EXPECT_FALSE(result.complete);
    if (result.best.empty() || result.at_least.value == 0) continue;
    ++bounded;
    EXPECT_LE(result.at_least, whole.best.front().time.step);
    EXPECT_GE(result.best.front().time.step, whole.best.front().time.step);
  }
  EXPECT_GT(bounded, 0);
}

}  // namespace
}  // namespace plumbline::search_test
