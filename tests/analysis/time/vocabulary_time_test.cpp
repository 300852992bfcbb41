// Passes and collectives of vocabulary parallelism in time. Compares the simulator with times by hand, the
// operators of each pass, and a whole prediction.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/predict/vocabulary_advice.hpp"
#include "analysis/simulate/critical_path.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "core/base/error.hpp"
#include "core/trace/collective_overlap.hpp"
#include "schedules/vocabulary.hpp"
#include "tests/analysis/memory/vocabulary_configs.hpp"

namespace plumbline::vocabulary_time_test {
namespace {

constexpr StageCosts kStage{.forward = {1},
                            .backward = {2},
                            .vocab_forward = {0.5},
                            .vocab_backward = {0.25},
                            .input_forward = {0.125},
                            .input_backward = {0.125}};

Costs costs_of(int stages, double scale) {
  Costs costs = uniform_costs(stages, kStage);
  costs.vocabulary = {{0.5 * scale}, {0.125 * scale}, {0.375 * scale}, {0.25 * scale}, {0.0625 * scale}};
  return costs;
}

double start_of(const Trace& trace, std::size_t rank, ActionType type) {
  for (const Event& event : trace.ranks[rank]) {
    if (event.action.type == type) return event.start.value;
  }
  return -1;
}

// Two ranks, one micro-batch. IF until 0.125, I1 until 0.375; F 0.375 to 2.375 on both; C0 until 2.875; S of
// rank 1 begins without it, that of rank 0 with it and ends at 3.375; C1 until 3.5. Two barriers: T
// until 3.75, C2 until 4.125. One barrier: C2 until 3.875, then T. B of both ranks until 8.125, I2
// until 8.1875, IB.
TEST(VocabularyTime, OneMicroBatchByHand) {
  struct Case {
    VocabPasses passes;
    double gradient_pass;
  };
  for (const Case& c : {Case{VocabPasses::two_barriers, 3.5}, Case{VocabPasses::one_barrier, 3.875}}) {
    const Schedule schedule = vocab_one_f_one_b(2, 1, c.passes);
    const Costs costs = costs_of(2, 1);
    const Trace trace = simulate(schedule, costs);
    EXPECT_DOUBLE_EQ(start_of(trace, 0, ActionType::forward), 0.375);
    EXPECT_DOUBLE_EQ(start_of(trace, 1, ActionType::vocab_forward), 2.375);
    EXPECT_DOUBLE_EQ(start_of(trace, 0, ActionType::vocab_forward), 2.875);
    EXPECT_DOUBLE_EQ(start_of(trace, 0, ActionType::vocab_backward), c.gradient_pass);
    EXPECT_DOUBLE_EQ(start_of(trace, 1, ActionType::vocab_backward), c.gradient_pass);
    EXPECT_DOUBLE_EQ(start_of(trace, 1, ActionType::backward), 4.125);
    EXPECT_DOUBLE_EQ(start_of(trace, 1, ActionType::input_backward), 8.1875);
    EXPECT_DOUBLE_EQ(trace.makespan().value, 8.3125);
    EXPECT_DOUBLE_EQ(simulate_makespan(schedule, costs).value, 8.3125);
    EXPECT_NEAR(critical_path(schedule, costs).on_transfers.value, 1.3125, 1e-12);
  }
}

VocabularyOverlap overlap_of(const Schedule& schedule, const Costs& costs) {
  return vocabulary_overlap(simulate(schedule, costs));
}

// The same step as every rank sees it: start, end, begin and length of its waits.
TEST(VocabularyTime, CollectivesOfOneMicroBatchByHand) {
  struct Seen {
    double start, end, waited_from, waited;
  };
  // C0, C1, C2, I1, I2. Rank 1 has the last stage: it reaches C0 with the end of its F and needs it nowhere.
  const Seen two_barriers[2][kVocabularyCalls] = {{{0, 2.875, 1.375, 1.5},
                                                   {3.375, 3.5, 3.375, 0.125},
                                                   {3.75, 4.125, 0, 0},
                                                   {0.125, 0.375, 0.125, 0.25},
                                                   {8.125, 8.1875, 8.125, 0.0625}},
                                                  {{2.375, 2.875, 0, 0},
                                                   {2.875, 3.5, 2.875, 0.625},
                                                   {3.75, 4.125, 3.75, 0.375},
                                                   {0.125, 0.375, 0, 0},
                                                   {0, 8.1875, 6.125, 2.0625}}};
  const Trace trace = simulate(vocab_one_f_one_b(2, 1, VocabPasses::two_barriers), costs_of(2, 1));
  ASSERT_EQ(trace.collectives.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(trace.collectives[rank].size(), kVocabularyCalls);
    for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
      const CollectiveEvent& found = trace.collectives[rank][call];
      const Seen& expected = two_barriers[rank][call];
      SCOPED_TRACE(fmt::format("{} on rank {}", name_of(found.call), rank));
      EXPECT_EQ(found.call, kAllVocabularyCalls[call]);
      EXPECT_EQ(found.microbatch, 0U);
      EXPECT_DOUBLE_EQ(found.start.value, expected.start);
      EXPECT_DOUBLE_EQ(found.end.value, expected.end);
      EXPECT_DOUBLE_EQ(found.waited.value, expected.waited);
      if (expected.waited > 0) {
        EXPECT_DOUBLE_EQ(found.waited_from.value, expected.waited_from);
      }
    }
  }
}

// Exposed on ranks 0 and 1: C0 0.5 and 0, C1 0.125 and 0.125, C2 0 and 0.375, I1 0.25 and 0, I2 0.0625 on
// both. With one barrier C2 follows C1 and both ranks wait for it from the end of their S on.
TEST(VocabularyTime, WaitsByHand) {
  struct Case {
    VocabPasses passes;
    double waited, exposed_statistics, exposed_gradient;
  };
  for (const Case& c : {Case{VocabPasses::two_barriers, 5.0 / 2, 0.125, 0.1875},
                        Case{VocabPasses::one_barrier, 5.375 / 2, 0.125, 0.375}}) {
    const VocabularyOverlap found = overlap_of(vocab_one_f_one_b(2, 1, c.passes), costs_of(2, 1));
    EXPECT_DOUBLE_EQ(total_of(found, &CollectiveOverlap::time).value, 1.3125);
    EXPECT_DOUBLE_EQ(total_of(found, &CollectiveOverlap::waited).value, c.waited);
    const double exposed[] = {0.25, c.exposed_statistics, c.exposed_gradient, 0.125, 0.0625};
    const double time[] = {0.5, 0.125, 0.375, 0.25, 0.0625};
    for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
      EXPECT_DOUBLE_EQ(found[call].exposed.value, exposed[call]) << call;
      EXPECT_DOUBLE_EQ(found[call].time.value, time[call]) << call;
      EXPECT_TRUE(std::isnan(found[call].overlapped)) << "one micro-batch has no steady state";
    }
  }
  const VocabularyOverlap none =
      overlap_of(vocab_one_f_one_b(2, 1, VocabPasses::two_barriers), costs_of(2, 0));
  EXPECT_EQ(total_of(none, &CollectiveOverlap::time).value, 0);
  EXPECT_EQ(total_of(none, &CollectiveOverlap::exposed).value, 0);
  EXPECT_GT(total_of(none, &CollectiveOverlap::waited).value, 0) << "for the last rank to come";
}

// A trace worked out by hand: two ranks, C1 of two micro-batches.
TEST(VocabularyTime, OverlapByHand) {
  const auto event = [](ActionType type, std::uint32_t m, double start, double end) {
    return Event{{.type = type, .microbatch = m}, {start}, {end}};
  };
  const auto gather = [](std::uint32_t m, double start, double end, double from, double waited) {
    return CollectiveEvent{VocabularyCall::statistics, m, {start}, {end}, {from}, {waited}};
  };
  Trace trace;
  // Steady from 2 (rank 1 begins its first B) to 9 (rank 0 ends its last F).
  trace.ranks = {{event(ActionType::backward, 0, 1, 3), event(ActionType::forward, 1, 5, 9)},
                 {event(ActionType::backward, 0, 2, 4), event(ActionType::forward, 1, 4, 10)}};
  // Micro-batch 0 runs from 1.5 to 3.5, 1.5 of it steady. Rank 0 computes until 3; rank 1 waits from 3 on,
  // within its B. Micro-batch 1 runs from 4 to 6, on rank 1 all during its F.
  trace.collectives = {{gather(0, 0.5, 3.5, 0, 0), gather(1, 4, 6, 0, 0)},
                       {gather(0, 1.5, 3.5, 3, 0.75), gather(1, 3.5, 6, 0, 0)}};
  const SteadyState steady = steady_state(trace);
  EXPECT_EQ(steady.start.value, 2);
  EXPECT_EQ(steady.end.value, 9);
  const CollectiveOverlap found = vocabulary_overlap(trace)[1];
  EXPECT_DOUBLE_EQ(found.time.value, 4);
  EXPECT_DOUBLE_EQ(found.exposed.value, 0.5 / 2);
  EXPECT_DOUBLE_EQ(found.waited.value, 0.75 / 2);
  EXPECT_DOUBLE_EQ(found.overlapped, (1.0 + 1.0 + 1.0 + 2.0) / 7);
}

// Purpose of the extra micro-batches in flight: in the steady state hardly any collective is exposed.
TEST(VocabularyTime, CollectivesHideBehindComputation) {
  for (const VocabPasses passes : {VocabPasses::two_barriers, VocabPasses::one_barrier}) {
    const Costs costs = costs_of(8, 0.25);
    VocabTimes times;
    times.vocab_forward = kStage.vocab_forward;
    times.vocab_backward = kStage.vocab_backward;
    times.input_forward = times.input_backward = kStage.input_forward;
    times.hidden = times.statistics = times.gradient = times.embedding = times.embedding_gradient = {0.2};
    const auto exposed = [&](int microbatches) {
      return overlap_of(vocab_one_f_one_b(8, microbatches, passes, true, times), costs);
    };
    const VocabularyOverlap more = exposed(96);
    const VocabularyOverlap less = exposed(32);
    const auto grown = [&](Seconds CollectiveOverlap::*member) {
      return total_of(more, member) - total_of(less, member);
    };
    EXPECT_LT(grown(&CollectiveOverlap::exposed) / grown(&CollectiveOverlap::time), 0.01)
        << "passes " << static_cast<int>(passes);
    for (const VocabularyCall call : {VocabularyCall::statistics, VocabularyCall::hidden_gradient})
      EXPECT_GT(more[static_cast<std::size_t>(call)].overlapped, 0.9) << name_of(call);
  }
}

TEST(VocabularyTime, RefusesNegativeTimes) {
  Costs costs = costs_of(2, 1);
  costs.vocabulary.gradient = {-1};
  EXPECT_THROW(simulate(vocab_one_f_one_b(2, 1, VocabPasses::one_barrier), costs), InputError);
}

// tiny_qwen2: T = 4, h = 8, v = 16 of 32. A product T×v×h has 2·4·16·8 = 1024 FLOPs.
TEST(VocabularyTime, ProductsOfThePasses) {
  struct Case {
    const char* method;
    double forward, backward;
  };
  for (const Case& c : {Case{"vocab-1", 1024, 2048}, Case{"vocab-2", 2048, 1024}}) {
    const RunConfig config = sample::vocabulary_config(c.method, 1, 2, 1, 2);
    const auto shapes = stage_shapes(config, sample::vocabulary_schedule(config));
    const auto flops = [&](ActionType type) {
      double sum = 0;
      for (const OperatorCall& call : calls_of(work_of(shapes[1], type))) sum += flops_of(call).value;
      return sum;
    };
    EXPECT_EQ(flops(ActionType::vocab_forward), c.forward);
    EXPECT_EQ(flops(ActionType::vocab_backward), c.backward);
    EXPECT_EQ(flops(ActionType::input_forward) + flops(ActionType::input_backward), 0);
    // Model FLOPs are the model's; executed FLOPs count the padded shards.
    const RunConfig whole = sample::vocabulary_config("none", 1, 2, 1, 2);
    EXPECT_EQ(executed_flops_per_token(config, 2).value, executed_flops_per_token(whole, 2).value);
    double all = 0;
    for (const StageShape& shape : shapes) {
      const StageFlops stage = stage_flops(shape);
      all += stage.forward.value + stage.backward.value;
    }
    EXPECT_EQ(all / 4, executed_flops_per_token(whole, 2).value);
    EXPECT_THROW(work_of(stage_shapes(whole, 2)[0], ActionType::vocab_forward), InputError);
  }
}

TEST(VocabularyTime, PredictionBesideComputationAndOnSharedProcessors) {
  HardwareProfile hardware = *find_hardware_preset("a100-sxm-80gb");
  for (const int processors : {0, 2}) {
    if (processors > 0) hardware.kind = Calibrated{processors};
    for (const char* method : {"vocab-1", "vocab-2", "interlaced"}) {
      SCOPED_TRACE(fmt::format("{} on {} processors", method, processors));
      const RunConfig config = sample::vocabulary_config(method, 1, 2, 1, 8);
      const Prediction p = predict(config, sample::vocabulary_schedule(config), hardware);
      const StepTime& t = p.time;
      const Seconds waited = total_of(p.vocabulary, &CollectiveOverlap::waited);
      EXPECT_GT(total_of(p.vocabulary, &CollectiveOverlap::time).value, 0);
      EXPECT_LE(total_of(p.vocabulary, &CollectiveOverlap::exposed), waited);
      EXPECT_LE(waited.value, t.exposed_pipeline.value * (1 + 1e-9));
      EXPECT_EQ(p.costs.vocabulary.hidden.value > 0, processors == 0);
      const double parts = t.compute.value + t.exposed_tensor.value + t.exposed_pipeline.value +
                           t.exposed_data.value + t.optimizer.value + p.costs.step_overhead.value;
      EXPECT_NEAR(parts / t.step.value, 1, 0.02);
    }
  }
}

RunConfig with_large_vocabulary(const char* method) {
  RunConfig config = sample::vocabulary_config(method, 1, 4, 1, 16);
  ModelConfig& model = config.model;
  model.layers = 8;
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.head_dim = 64;
  model.ffn = 4096;
  model.vocab = 128 * 1024;
  model.embedding.tied = false;
  config.numerics.precision = DType::bf16;
  config.batch.seq_length = 1024;
  return config;
}

TEST(VocabularyTime, AdviceSaysWhatIsBetter) {
  const HardwareProfile& hardware = *find_hardware_preset("a100-sxm-80gb");
  const auto report = [&](const RunConfig& config) {
    const Schedule schedule = sample::vocabulary_schedule(config);
    return vocabulary_report(config, schedule, predict(config, schedule, hardware), hardware,
                             sample::vocabulary_schedule);
  };
  RunConfig config = with_large_vocabulary("none");
  const Schedule schedule = sample::vocabulary_schedule(config);
  const PipelineImbalance imbalance = pipeline_imbalance(schedule, predict(config, schedule, hardware));
  EXPECT_EQ(imbalance.slowest_rank, 3);
  EXPECT_EQ(imbalance.fullest_rank, 3);
  EXPECT_GT(imbalance.time, 2);
  EXPECT_GT(imbalance.bytes, 1.5);
  const std::string uneven = report(config);
  EXPECT_NE(uneven.find("(rank 3)"), std::string::npos) << uneven;
  EXPECT_NE(uneven.find("faster: vocab_parallel: vocab-"), std::string::npos) << uneven;
  const std::string even = report(with_large_vocabulary("vocab-2"));
  EXPECT_NE(even.find("exposed"), std::string::npos) << even;
  EXPECT_EQ(even.find("faster:"), std::string::npos) << even;
  config = with_large_vocabulary("none");
  config.model.vocab = 32;  // nothing to gain
  EXPECT_EQ(report(config).find("faster:"), std::string::npos) << report(config);
  config = with_large_vocabulary("none");
  config.batch.global_batch_size = 512;  // too many to look at others
  EXPECT_EQ(report(config).find("faster:"), std::string::npos);
  config.parallel.pipeline = config.parallel.world_size = 1;
  EXPECT_EQ(report(config), "");
}

// With ZeRO 1 the shards' gradients are final after the last IB and T, which then start their reduction.
TEST(VocabularyTime, GradientReductionsFollowThePasses) {
  for (const bool tied : {false, true}) {
    for (const int zero : {0, 1, 2, 3}) {
      RunConfig config = sample::vocabulary_config("vocab-1", 1, 2, 2, 4);
      config.model.embedding.tied = tied;
      config.parallel.dp.zero_stage = zero;
      config.parallel.dp.bucket_size = 100;
      const Prediction p =
          predict(config, sample::vocabulary_schedule(config), *find_hardware_preset("a100-sxm-80gb"));
      EXPECT_GT(p.time.step.value, 0);
      EXPECT_GT(p.time.exposed_data.value, 0);
    }
  }
}

}  // namespace
}  // namespace plumbline::vocabulary_time_test
