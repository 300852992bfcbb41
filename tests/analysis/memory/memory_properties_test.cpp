// Invariants of memory for every schedule and every split of a model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "schedules/repeating.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::memory_properties_test {
namespace {

constexpr const char* kSchedules[] = {"gpipe", "1f1b",   "interleaved", "zb-h1",    "zb-h2",    "zb-auto",
                                      "zb-v",  "v-half", "v-min",       "dualpipe", "dualpipev"};

RunConfig random_config() {
  RunConfig config = *rc::gen::arbitrary<bool>() ? sample::tiny_gpt2() : sample::tiny_qwen2();
  config.model.layers = *rc::gen::inRange(16, 20);
  config.model.embedding.tied = *rc::gen::arbitrary<bool>();
  config.parallel.tensor = *rc::gen::element(1, 2);
  config.parallel.pipeline = *rc::gen::element(1, 2, 4);
  const int data = *rc::gen::element(1, 2, 4);
  config.parallel.world_size = config.parallel.tensor * config.parallel.pipeline * data;
  config.batch.global_batch_size = std::int64_t{*rc::gen::element(8, 12, 16)} * data;
  config.parallel.pp.schedule =
      *rc::gen::elementOf(std::vector<std::string>(std::begin(kSchedules), std::end(kSchedules)));
  config.parallel.sequence_parallel = *rc::gen::arbitrary<bool>();
  config.parallel.dp.zero_stage = *rc::gen::inRange(0, 4);
  config.parallel.dp.overlap_grad_reduce = *rc::gen::arbitrary<bool>();
  config.parallel.dp.overlap_param_gather = *rc::gen::arbitrary<bool>();
  config.parallel.pp.overlap_p2p_comm = *rc::gen::arbitrary<bool>();
  config.recompute.granularity = *rc::gen::element(Recompute::none, Recompute::selective, Recompute::full);
  config.recompute.num_layers = *rc::gen::inRange(1, 4);
  config.numerics.precision = *rc::gen::element(DType::fp32, DType::bf16);
  config.numerics.attention_backend = *rc::gen::element(AttentionBackend::fused, AttentionBackend::unfused);
  config.numerics.hidden_dropout = *rc::gen::element(0.0, 0.1);
  config.numerics.attention_dropout = *rc::gen::element(0.0, 0.1);
  config.numerics.fp8.format = *rc::gen::element(Fp8Format::none, Fp8Format::hybrid);
  config.numerics.fp8.recipe = *rc::gen::element(Fp8Recipe::delayed, Fp8Recipe::tensorwise);
  if (!config.numerics.fp8.on()) {
    config.recompute.modules = {.core_attn = *rc::gen::arbitrary<bool>(),
                                .layernorm = *rc::gen::arbitrary<bool>(),
                                .mlp = *rc::gen::arbitrary<bool>()};
  }
  return config;
}

/// The whole schedule of a configuration; discards sizes that the schedule does not take.
Schedule schedule_of(const RunConfig& config) {
  Schedule schedule;
  try {
    ScheduleRequest request;
    request.name = config.parallel.pp.schedule;
    request.ranks = config.parallel.pipeline;
    request.microbatches = config.microbatches();
    schedule = add_transfers(make_schedule(request), TransferOrder::sends_first);
  } catch (const InputError&) {
    RC_DISCARD("sizes that the schedule refuses");
  }
  return add_step_end(schedule, {.data_parallel = config.parallel.data() > 1 || schedule.routes > 1,
                                 .tied_embedding = config.model.embedding.tied});
}

RC_GTEST_PROP(MemoryProperties, EveryStepEndsWhereItBegan, ()) {
  const RunConfig config = random_config();
  const MemoryPrediction prediction = predict_memory(config, schedule_of(config), MemoryDetail::timeline);
  for (const RankMemory& rank : prediction.ranks) {
    RC_ASSERT(rank.timeline.back().after == rank.held);
    Bytes highest = rank.held.total();
    MemoryBreakdown before = rank.held;
    for (const MemorySample& sample : rank.timeline) {
      for (int c = 0; c < kCategories; ++c) {
        const auto category = static_cast<Category>(c);
        RC_ASSERT(sample.after[category].value >= 0);
        RC_ASSERT(sample.peak[category].value >= 0);
        // Parameters and optimizer states never shrink below the persistent bytes; a gradient's G may leave
        // early.
        if (category != Category::communication) {
          RC_ASSERT(sample.after[category] >= rank.held[category] || category == Category::workspace);
        }
      }
      RC_ASSERT(sample.peak.total() >= before.total());
      RC_ASSERT(sample.peak.total() >= sample.after.total());
      highest = std::max(highest, sample.peak.total());
      before = sample.after;
    }
    RC_ASSERT(rank.peak.total() == highest);
    RC_ASSERT(prediction.peak >= highest);
  }
}

RC_GTEST_PROP(MemoryProperties, ATimelineDoesNotChangeThePeaks, ()) {
  const RunConfig config = random_config();
  const Schedule schedule = schedule_of(config);
  const MemoryPrediction with = predict_memory(config, schedule, MemoryDetail::timeline);
  const MemoryPrediction without = predict_memory(config, schedule);
  for (std::size_t i = 0; i < with.ranks.size(); ++i) {
    RC_ASSERT(without.ranks[i].timeline.empty());
    RC_ASSERT(with.ranks[i].peak == without.ranks[i].peak);
    RC_ASSERT(with.ranks[i].at == without.ranks[i].at);
  }
}

// A repeated step has the same peak as the step written out, receives posted ahead included.
TEST(MemoryProperties, ARepeatedStepIsTheWholeStep) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "zb-v", "v-half", "dualpipe"}) {
    for (const bool ahead : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << ' ' << ahead);
      RunConfig config = sample::tiny_qwen2();
      config.model.layers = 16;
      config.parallel.pipeline = config.parallel.world_size = 4;
      config.batch.global_batch_size = 96;
      config.parallel.pp.overlap_p2p_comm = ahead;
      ScheduleRequest request;
      request.name = name;
      request.ranks = 4;
      request.microbatches = 96;
      const auto repeated = make_repeated(request, [](const Schedule& schedule) {
        return add_step_end(add_transfers(schedule, TransferOrder::posted), {false, false});
      });
      ASSERT_TRUE(repeated && repeated->repeats());
      const MemoryPrediction short_form = predict_memory(config, *repeated);
      const MemoryPrediction whole = predict_memory(config, with_copies(*repeated, repeated->copies));
      for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank)
        EXPECT_EQ(short_form.ranks[rank].peak, whole.ranks[rank].peak) << rank;
    }
  }
}

RC_GTEST_PROP(MemoryProperties, ZeroHoldsLessWithEveryStage, ()) {
  RunConfig config = random_config();
  const Schedule schedule = schedule_of(config);
  Bytes before{INT64_MAX};
  for (int zero = 1; zero <= 3; ++zero) {
    config.parallel.dp.zero_stage = zero;
    const Bytes held = predict_memory(config, schedule).ranks.front().held.total();
    RC_ASSERT(held <= before);
    before = held;
  }
}

// Without tensor parallelism: with it, recomputed partial sums may be held together with a gradient.
RC_GTEST_PROP(MemoryProperties, RecomputationNeverNeedsMore, ()) {
  RunConfig config = random_config();
  config.parallel.world_size /= config.parallel.tensor;
  config.parallel.tensor = 1;
  config.parallel.dp.zero_stage = 0;
  const Schedule schedule = schedule_of(config);
  config.recompute.granularity = Recompute::none;
  const MemoryPrediction none = predict_memory(config, schedule);
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    config.recompute.granularity = recompute;
    const MemoryPrediction less = predict_memory(config, schedule);
    for (std::size_t i = 0; i < none.ranks.size(); ++i) {
      RC_ASSERT(less.ranks[i].peak.total() <= none.ranks[i].peak.total());
    }
  }
}

// A split backward that runs its two parts back to back frees as much as the whole one.
RC_GTEST_PROP(MemoryProperties, SplitBackwardFreesTheSame, ()) {
  const RunConfig config = random_config();
  const Schedule schedule = schedule_of(config);
  for (const StageShape& shape : stage_shapes(config, schedule)) {
    const MemoryBreakdown whole = action_profile(shape, ActionType::backward).net;
    const MemoryBreakdown input = action_profile(shape, ActionType::backward_input).net;
    const MemoryBreakdown weight = action_profile(shape, ActionType::backward_weight).net;
    for (int c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      RC_ASSERT(whole[category] == input[category] + weight[category]);
    }
  }
}

}  // namespace
}  // namespace plumbline::memory_properties_test
