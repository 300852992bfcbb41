// The cluster model: operators and collectives on a machine, pipelines in closed form against the simulator,
// published formulas, and the search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "analysis/cluster/interleaved_time.hpp"
#include "analysis/cluster/memory.hpp"
#include "analysis/cluster/pipeline_time.hpp"
#include "analysis/hardware/profiles.hpp"
#include "analysis/search/search.hpp"
#include "analysis/search/sensitivity.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/evaluate/cluster_schedule.hpp"
#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline::cluster {
namespace {

const Machine& a100() {
  return built_in_profiles().machine("a100-sxm-80gb");
}
const Software& software(const char* name) {
  return built_in_profiles().generation(name);
}

TEST(Device, LargeProductsReachTheSharesOfTheProfile) {
  const Device& d = a100().device;
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const double rate = flops / gemm_seconds(d, 8192, 8192, 8192);
  EXPECT_GT(rate, 0.7 * d.peak_16bit);
  EXPECT_LT(rate, d.peak_16bit * d.gemm_share);
}

TEST(Device, MoreWorkNeverTakesLess) {
  const Device& d = a100().device;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> size(1, 6000);
  for (int i = 0; i < 500; ++i) {
    const double m = size(random), n = size(random), k = size(random);
    EXPECT_LE(gemm_seconds(d, m, n, k), gemm_seconds(d, m + 512, n, k) * 1.0000001);
    EXPECT_LE(gemm_seconds(d, m, n, k), gemm_seconds(d, m, n, k + 64));
    EXPECT_GE(gemm_seconds(d, m, n, k), 2 * m * n * k / d.peak_16bit);
  }
}

TEST(Network, RingOfOneNodeIsTheTextbookFormula) {
  const Network& net = a100().network;
  const double bytes = 1e9;
  const double expected =
      net.node_base_s + 2 * 7 * net.node_step_s + 2 * 7.0 / 8 * bytes / net.node_bandwidth;
  EXPECT_NEAR(all_reduce_seconds(net, {8, 1}, bytes), expected, 1e-12);
  EXPECT_EQ(all_reduce_seconds(net, {1, 1}, bytes), 0);
  // An all-reduce moves what a reduce-scatter and an all-gather move.
  EXPECT_NEAR(all_reduce_seconds(net, {8, 1}, bytes) + net.node_base_s,
              2 * scatter_seconds(net, {8, 1}, bytes), 1e-9);
}

TEST(Network, GroupsThatLeaveTheNodeAreBoundByTheirCards) {
  const Network& net = a100().network;
  // Data parallel with tensor parallel 8: one rank per node, one card each.
  EXPECT_GT(all_reduce_seconds(net, {16, 8}, 1e9), 2 * 15.0 / 16 * 1e9 / net.nic_bandwidth);
  // Without tensor parallelism all eight cards of a node carry the ring.
  EXPECT_LT(all_reduce_seconds(net, {16, 1}, 1e9), all_reduce_seconds(net, {16, 8}, 1e9) / 4);
  EXPECT_EQ(ranks_per_node(net, {16, 4}), 2);
}

struct PipelineCase {
  const char* schedule;
  int ranks, microbatches;
  double forward, backward, last, message;  // last: of the last stage, relative
  bool exact;
};

TEST(Pipeline, ClosedFormIsTheSimulatorsTime) {
  const PipelineCase cases[] = {
      {"1f1b", 1, 5, 1, 2, 1, 0, true},       {"1f1b", 2, 3, 1, 2, 1, 0, true},
      {"1f1b", 8, 32, 1, 2, 1, 0, true},      {"1f1b", 8, 4, 1, 2, 1.5, 0.1, true},
      {"1f1b", 4, 64, 1, 2, 1.2, 0.25, true}, {"1f1b", 4, 64, 1, 2, 1.2, 0.35, false},
      {"1f1b", 4, 16, 1, 2, 0.9, 0, false},   {"gpipe", 8, 16, 1, 2, 1, 0.5, true},
      {"gpipe", 4, 16, 1, 2, 2, 1.5, true},   {"gpipe", 4, 16, 1, 2, 0.5, 0, false},
      {"zb-h1", 4, 16, 1, 2, 1, 0, false},
  };
  for (const PipelineCase& c : cases) {
    StageKinds stages;
    stages.first = stages.middle = StageCosts{{c.forward}, {c.backward}, {c.backward / 2}, {c.backward / 2}};
    stages.last = StageCosts{{c.forward * c.last}, {c.backward * c.last}};
    stages.message = c.message;
    const auto exact = exact_pipeline_seconds(c.schedule, c.ranks, c.microbatches, stages);
    ASSERT_EQ(exact.has_value(), c.exact) << c.schedule << " P " << c.ranks << " M " << c.microbatches;
    if (!exact) continue;
    Costs costs;
    costs.stages.assign(static_cast<std::size_t>(c.ranks), stages.middle);
    costs.stages.back() = stages.last;
    costs.transfer.value = c.message;
    ScheduleNeed need{c.schedule, c.ranks, c.microbatches, 1, VocabPasses::none, 0};
    EXPECT_NEAR(*exact, simulate_makespan(make_cluster_schedule(need, costs), costs).value, 1e-9)
        << c.schedule << " P " << c.ranks << " M " << c.microbatches << " last " << c.last << " c "
        << c.message;
  }
}

TEST(Pipeline, LongSchedulesAreContinuedExactly) {
  PipelinePlans plans(make_cluster_schedule);
  StageKinds stages;
  stages.first = StageCosts{{1.1}, {2.3}, {1.2}, {1.1}};
  stages.middle = StageCosts{{1.0}, {2.1}, {1.15}, {0.95}};
  stages.last = StageCosts{{1.3}, {2.2}, {1.25}, {0.95}};
  stages.message = 0.03;
  for (const auto& [name, chunks] :
       {std::pair{"1f1b", 1}, {"gpipe", 1}, {"interleaved", 2}, {"zb-h1", 1}, {"zb-h2", 1}}) {
    const ScheduleNeed need{name, 4, 100, chunks, VocabPasses::none, 0};
    const PipelinePlans::Entry& entry = plans.find(need, true);
    ASSERT_TRUE(entry.refused.empty()) << entry.refused;
    Costs costs;
    SweepTimes times;
    const double fast = pipeline_seconds(entry, 100, stages, costs, times);
    Costs full;
    full.stages.assign(static_cast<std::size_t>(4 * chunks), stages.middle);
    full.stages.front() = stages.first;
    full.stages.back() = stages.last;
    full.transfer.value = stages.message;
    const double whole = simulate_makespan(make_cluster_schedule(need, full), full).value;
    EXPECT_NEAR(fast, whole, 1e-6 * whole) << name;
  }
}

/// Stages of random length; the first and the last differ from the others.
StageKinds random_stages(std::mt19937& random, double message) {
  std::uniform_real_distribution<double> seconds(0.5, 3);
  StageKinds stages;
  for (StageCosts* stage : {&stages.first, &stages.middle, &stages.last}) {
    stage->forward.value = seconds(random);
    stage->backward_input.value = seconds(random);
    stage->backward_weight.value = seconds(random);
    stage->backward = stage->backward_input + stage->backward_weight;
  }
  stages.message = message;
  return stages;
}

double simulated(const Schedule& schedule, const StageKinds& stages) {
  Costs costs;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    costs.stages.push_back(schedule.first_of_route(stage)
                               ? stages.first
                               : (schedule.last_of_route(stage) ? stages.last : stages.middle));
  }
  costs.transfer.value = stages.message;
  return simulate_makespan(schedule, costs).value;
}

TEST(Pipeline, InterleavedRecurrenceIsTheSimulatorsTime) {
  std::mt19937 random(3);
  InterleavedTime interleaved;
  for (const int ranks : {2, 3, 4, 8, 11}) {
    for (const int chunks : {2, 3, 5}) {
      for (const int groups : {1, 2, 3, 7}) {
        const ScheduleNeed need{"interleaved", ranks, ranks * groups, chunks, VocabPasses::none, 0};
        const Schedule schedule = make_cluster_schedule(need, {});
        for (const double message : {0.0, 0.02, 0.4, 1.5, 5.0}) {
          const StageKinds stages = random_stages(random, message);
          const double exact = simulated(schedule, stages);
          const InterleavedCosts costs{stages.first.forward.value,
                                       stages.first.backward.value,
                                       stages.middle.forward.value,
                                       stages.middle.backward.value,
                                       stages.last.forward.value,
                                       stages.last.backward.value,
                                       stages.message};
          EXPECT_NEAR(interleaved.seconds({ranks, need.microbatches, chunks}, costs), exact, 1e-11 * exact)
              << "P " << ranks << " V " << chunks << " M " << need.microbatches << " message " << message;
        }
      }
    }
  }
}

TEST(Pipeline, PreparedPlansGiveTheSimulatorsTime) {
  std::mt19937 random(4);
  for (const std::string& name : search_schedules()) {
    for (const int ranks : {2, 4, 6}) {
      const bool two =
          name == "interleaved" || name == "zb-v" || name.starts_with("v-") || name.starts_with("dualpipe");
      const ScheduleNeed need{name, ranks, 4 * ranks, two ? 2 : 1, VocabPasses::none, 0};
      const Schedule schedule = make_cluster_schedule(need, {});
      const PipelinePlan plan(schedule, true);
      // Longer than some passes: links are waited for.
      for (const double message : {0.05, 0.4, 1.0, 4.0}) {
        const StageKinds stages = random_stages(random, message);
        const double exact = simulated(schedule, stages);
        Costs costs;
        SweepTimes times;
        EXPECT_NEAR(plan.seconds(stages, costs, times), exact, 1e-11 * exact)
            << name << " P " << ranks << " message " << message;
      }
    }
  }
}

TEST(Memory, ModelStatesOfTheZeroPaper) {
  Job job;
  job.data = 64;
  const double gb[] = {31.4, 16.6, 1.88};
  for (int stage = 1; stage <= 3; ++stage) {
    job.zero = stage;
    EXPECT_NEAR(state_bytes(software("megatron-2021"), job, 7.5e9) / 1e9, gb[stage - 1], 0.05);
  }
}

TEST(Memory, LayerFormulasOfKorthikanti) {
  Job job;
  job.sequence = 2048;
  job.micro_batch = 1;
  job.tensor = 8;
  job.model.hidden = 12288;
  job.model.heads = job.model.kv_heads = 96;
  job.model.head = 128;
  job.model.ffn = 4 * 12288;
  const double sbh = 2048.0 * 12288;
  const double scores = 5.0 * 96 * 2048 / 12288;
  const Software& sw = software("megatron-2022");
  EXPECT_NEAR(layer_activation_bytes(sw, job), sbh * (10 + 24.0 / 8 + scores / 8), 1);
  job.sequence_parallel = true;
  EXPECT_NEAR(layer_activation_bytes(sw, job), sbh / 8 * (34 + scores), 1);
  job.recomputation = Recomputation::selective;
  EXPECT_NEAR(layer_activation_bytes(sw, job), sbh / 8 * 34, 1);
  job.recomputation = Recomputation::full;
  EXPECT_NEAR(layer_activation_bytes(sw, job), sbh / 8 * 2, 1);
}

TEST(Placement, BalancedLayersAreThoseOfARun) {
  for (const char* preset : {"gpt2-1558m", "qwen2.5-0.5b", "llama-3.1-8b"}) {
    RunConfig config;
    config.model = *find_preset(preset);
    config.batch.seq_length = 1024;
    for (const int stages : {2, 3, 4, 8}) {
      for (const bool balanced : {false, true}) {
        config.parallel.layer_distribution = balanced ? "balanced" : "even";
        const std::vector<int> counts = layers_per_stage(config, stages);
        Job job;
        job.model = model_of(config.model);
        job.sequence = 1024;
        job.pipeline = stages;
        job.balanced = balanced;
        const StageLayers layers = stage_layers(job);
        EXPECT_EQ(layers.first, counts.front()) << preset << ' ' << stages;
        EXPECT_EQ(layers.last, counts.back()) << preset << ' ' << stages;
        if (stages > 2) {
          EXPECT_EQ(layers.middle, *std::max_element(counts.begin() + 1, counts.end() - 1)) << preset;
        }
      }
    }
  }
}

SearchRequest small_request() {
  SearchRequest request;
  request.model = model_of(*find_preset("gpt2-1558m"));
  request.model.heads = request.model.kv_heads = 24;
  request.sequence = 1024;
  request.global_batch = 32;
  request.accelerators = 8;
  request.memory_budget = 60e9;
  request.top = 5;
  return request;
}

TEST(Search, BestFirstWithinTheBudgetWhateverTheThreads) {
  PipelinePlans plans(make_cluster_schedule);
  SearchRequest request = small_request();
  const SearchResult one = search(request, a100(), software("plumbline"), plans);
  request.threads = 2;
  const SearchResult two = search(request, a100(), software("plumbline"), plans);
  ASSERT_EQ(one.best.size(), 5u);
  EXPECT_EQ(one.configurations, two.configurations);
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].step_s, two.best[i].step_s);
    EXPECT_LE(one.best[i].peak_bytes, request.memory_budget);
    if (i > 0) {
      EXPECT_LE(one.best[i - 1].step_s, one.best[i].step_s);
    }
    const Job& job = one.best[i].job;
    EXPECT_EQ(job.tensor * job.pipeline * job.data, 8);
    EXPECT_EQ(job.data * job.micro_batch * job.microbatches, 32);
    EXPECT_NEAR(one.best[i].parts.sum(), one.best[i].step_s, 1e-12);
  }
  for (std::size_t i = 1; i < one.front.size(); ++i) {
    EXPECT_GT(one.front[i].peak_bytes, one.front[i - 1].peak_bytes);
    EXPECT_LT(one.front[i].step_s, one.front[i - 1].step_s);
  }
}

TEST(Search, AVocabularyMadeLargeMovesLayersOrIsCut) {
  PipelinePlans plans(make_cluster_schedule);
  SearchRequest request = small_request();
  request.model.vocab = 500'000;
  request.model.tied = false;
  // One head and seven sequences leave nothing but a pipeline.
  request.model.heads = request.model.kv_heads = 1;
  request.global_batch = 7;
  request.accelerators = 4;
  request.memory_budget = 1e12;
  request.top = 5000;
  const SearchResult result = search(request, a100(), software("plumbline"), plans);
  std::set<std::string> placements;
  double even = 0;
  double other = 0;
  for (const Candidate& c : result.best) {
    if (c.job.pipeline < 4 || c.schedule != 0) continue;
    const bool moved = c.job.balanced || c.job.vocabulary != VocabPasses::none;
    placements.insert(c.job.balanced ? "balanced" : std::to_string(static_cast<int>(c.job.vocabulary)));
    double& best = moved ? other : even;
    if (best == 0) best = c.step_s;
  }
  EXPECT_EQ(placements.size(), 5u);
  EXPECT_LT(other, even);
}

TEST(Search, LessMemoryNeverHelps) {
  PipelinePlans plans(make_cluster_schedule);
  SearchRequest request = small_request();
  double before = 0;
  for (const double budget : {80e9, 20e9, 8e9, 4e9}) {
    request.memory_budget = budget;
    const SearchResult result = search(request, a100(), software("plumbline"), plans);
    if (result.best.empty()) break;
    EXPECT_GE(result.best.front().step_s, before);
    before = result.best.front().step_s;
  }
  request.memory_budget = 1e6;
  EXPECT_TRUE(search(request, a100(), software("plumbline"), plans).best.empty());
}

TEST(Sensitivity, FasterHardwareIsNotSlowerAndRatesAddUp) {
  PipelinePlans plans(make_cluster_schedule);
  Job job;
  job.model = small_request().model;
  job.sequence = 1024;
  job.tensor = 2;
  job.pipeline = 2;
  job.data = 2;
  job.micro_batch = 4;
  job.microbatches = 8;
  const Limits limits = what_limits(job, schedule_index("1f1b", 1), a100(), software("plumbline"), plans);
  const std::set<std::string> better_when_higher = {"peak_16bit",     "bandwidth",         "gemm_share",
                                                    "node_bandwidth", "message_bandwidth", "nic_bandwidth",
                                                    "stream_share"};
  double sum = 0;
  for (const Elasticity& e : limits.hardware) {
    if (better_when_higher.count(e.constant) != 0) {
      EXPECT_LE(e.elasticity, 1e-9) << e.constant;
    }
    sum += std::abs(e.elasticity);
  }
  EXPECT_GT(sum, 0.8);
  EXPECT_FALSE(limits.changes.empty());
}

TEST(Profiles, EveryMachineAndGenerationIsUsable) {
  EXPECT_GE(built_in_profiles().machines.size(), 9u);
  EXPECT_GE(built_in_profiles().software.size(), 8u);
  try {
    (void)built_in_profiles().machine("a100-sxm-81gb");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a100-sxm-80gb"));
  }
}

TEST(Profiles, DamagedFilesAreRefused) {
  const char* const kDamaged[] = {
      "",
      "[]",
      "{\"machines\": {}}",
      R"({"machines": {"x": {"constants": {}}}, "software": {}})",
      R"({"machines": {"x": {"like": "x", "constants": {}}}, "software": {}})",
      R"({"machines": {}, "software": {"s": {"constants": {"dropout": {"value": 3, "source": "a"}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"dropout": {"value": true}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"step_s": {"value": -1, "source": "a"}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"nonsense": {"value": 1, "source": "a"}}}}})",
  };
  for (const char* text : kDamaged) EXPECT_THROW(parse_profiles(text, "file"), InputError) << text;
}

}  // namespace
}  // namespace plumbline::cluster
