// Every pipeline schedule on emulated H100s and a virtual clock. The real executor takes, action by action,
// as long as predicted, waiting for senders and receivers included.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/simulate/simulator.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "schedules/make_schedule.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::schedules_emulated_time_test {
namespace {

RunConfig config_of(std::string_view schedule, int ranks, double clip_grad) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 4 * ranks;
  config.model.hidden = 1024;
  config.model.head_dim = 128;
  config.model.heads = config.model.kv_heads = 8;
  config.model.ffn = 4096;
  config.batch.seq_length = config.model.position.max = 2048;
  config.batch.global_batch_size = 4L * ranks;
  config.numerics.precision = clip_grad > 0 ? DType::bf16 : DType::fp16;
  config.optimizer.clip_grad = clip_grad;
  set_emulated(config);
  config.parallel.pp.schedule = schedule;
  if (schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  set_layout(config, {1, ranks, 1});
  return config;
}

/// Largest difference of an action's begin or end.
Seconds apart(const Trace& predicted, const Trace& emulated) {
  Seconds most;
  for (std::size_t rank = 0; rank < predicted.ranks.size(); ++rank) {
    EXPECT_EQ(predicted.ranks[rank].size(), emulated.ranks[rank].size());
    for (std::size_t i = 0; i < predicted.ranks[rank].size(); ++i) {
      const Event& a = predicted.ranks[rank][i];
      const Event& b = emulated.ranks[rank][i];
      // A receive may be said to begin when it was posted, or when nothing else is left to do.
      if (!is_transfer(a.action.type)) most = std::max(most, Seconds{std::abs((a.start - b.start).value)});
      most = std::max(most, Seconds{std::abs((a.end - b.end).value)});
    }
  }
  return most;
}

TEST(SchedulesOnEmulatedDevices, TakeAsLongAsPredicted) {
  for (const std::string_view name : schedule_names()) {
    const ScheduleTraits traits = schedule_traits(name);
    if (traits.teacher || traits.vocab != VocabPasses::none)
      continue;  // asked for by other keys than this name
    for (const double clip_grad : {1.0, 0.0}) {
      const RunConfig config = config_of(name, world_ranks(), clip_grad);
      const auto reason = why_invalid(config);
      ASSERT_FALSE(reason) << name << ": " << *reason;
      const EmulatedStep emulated = emulated_step(config);
      const Seconds step = emulated.result.step_times.front();
      const Seconds difference =
          apart(simulate(schedule_for(config), emulated.predicted.costs), emulated.result.trace);
      const std::string figures = fmt::format(
          "{} clip {}: predicted {:.1f} us, emulated {:.1f}, actions apart by {:.2f}", name, clip_grad,
          1e6 * emulated.predicted.time.step.value, 1e6 * step.value, 1e6 * difference.value);
      fmt::print("{}\n", figures);
      SCOPED_TRACE(figures);
      expect_as_predicted(emulated, 0.002);
      EXPECT_LT(difference / step, 0.002);
    }
  }
}

TEST(SchedulesOnEmulatedDevices, SplitVocabulariesTakeAsLongAsPredicted) {
  if (world_ranks() != 4) GTEST_SKIP() << "four ranks show it";
  struct Method {
    const char* schedule;
    VocabPasses passes;
    Layout layout;
    int zero = 0;
    int secondary_shards = 1;
  };
  for (const auto& [name, passes, layout, zero, secondary_shards] :
       {Method{"1f1b", VocabPasses::two_barriers, {2, 2, 1}},
        Method{"1f1b", VocabPasses::one_barrier, {2, 2, 1}},
        Method{"v-half", VocabPasses::one_barrier, {2, 2, 1}},
        Method{"1f1b", VocabPasses::one_barrier, {1, 2, 2}, 1},
        Method{"1f1b", VocabPasses::two_barriers, {1, 1, 4}, 3, 2}}) {
    RunConfig config = config_of(name, 4, 1);
    set_layout(config, layout);
    config.parallel.pp.vocab_parallel = passes;
    config.parallel.sequence_parallel = layout.tensor > 1;
    config.parallel.dp.zero_stage = zero;
    config.parallel.dp.hpz_partition_size = secondary_shards;
    if (zero > 0) config.parallel.dp.overlap_param_gather = true;
    config.measure.warmup_steps = 1;
    SCOPED_TRACE(name);
    expect_as_predicted(emulated_step(config), 0.02);
  }
}

}  // namespace
}  // namespace plumbline::training::schedules_emulated_time_test
