// Every pipeline schedule on emulated H100s and a virtual clock. The real executor takes, action by action,
// as long as predicted, waiting for senders and receivers included.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "analysis/predict/predict.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "schedules/make_schedule.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {
namespace {

RunConfig config_of(std::string_view schedule, int ranks, double clip_grad) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 4 * ranks;
  config.model.hidden = 1024;
  config.model.head_dim = 128;
  config.model.heads = config.model.kv_heads = 8;
  config.model.ffn = 4096;
  config.batch.seq_length = config.model.max_positions = 2048;
  config.batch.global_batch_size = 4L * ranks;
  config.numerics.precision = DType::bf16;
  config.optimizer.clip_grad = clip_grad;
  config.machine.backend = Backend::emulated;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.schedule = schedule;
  if (schedule == "interleaved") config.parallel.virtual_chunks = 2;
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
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const std::string_view name : schedule_names()) {
    const ScheduleTraits traits = schedule_traits(name);
    if (traits.teacher || traits.vocab != VocabPasses::none)
      continue;  // asked for by other keys than this name
    for (const double clip_grad : {1.0, 0.0}) {
      const RunConfig config = config_of(name, ranks, clip_grad);
      const auto reason = why_invalid(config);
      ASSERT_FALSE(reason) << name << ": " << *reason;
      const HardwareProfile hardware = load_hardware(config.machine.hardware);
      const Schedule schedule = schedule_for(config);
      const Prediction predicted = predict(config, schedule, hardware);
      MpiCommunicator control(config.layout());
      EmulatedClock clock = EmulatedClock::of_virtual_time();
      EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
      const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
      const TrainingResult emulated =
          train(config, schedule, *operators, communicator, control, untouched_memory(), {});
      const Seconds step = emulated.step_times.front();
      const Seconds difference = apart(simulate(schedule, predicted.costs), emulated.trace);
      const std::string figures =
          fmt::format("{} clip {}: predicted {:.1f} us, emulated {:.1f}, actions apart by {:.2f}", name,
                      clip_grad, 1e6 * predicted.time.step.value, 1e6 * step.value, 1e6 * difference.value);
      fmt::print("{}\n", figures);
      EXPECT_NEAR(step / predicted.time.step, 1, 0.002) << figures;
      EXPECT_LT(difference / step, 0.002) << figures;
      const Traffic traffic = predict_traffic(config, schedule)[static_cast<std::size_t>(control.rank())];
      EXPECT_TRUE(same(traffic, emulated.step_traffic)) << figures;
    }
  }
}

TEST(SchedulesOnEmulatedDevices, SplitVocabulariesTakeAsLongAsPredicted) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 4) GTEST_SKIP() << "four ranks show it";
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
    config.parallel.vocab_parallel = passes;
    config.parallel.sequence_parallel = layout.tensor > 1;
    config.parallel.zero_stage = zero;
    config.parallel.zero_hpz_partition_size = secondary_shards;
    if (zero > 0) config.parallel.overlap_param_gather = true;
    config.measure.warmup_steps = 1;
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    const Schedule schedule = schedule_for(config);
    const Prediction predicted = predict(config, schedule, hardware);
    MpiCommunicator control(config.layout());
    EmulatedClock clock = EmulatedClock::of_virtual_time();
    EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
    const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
    const TrainingResult emulated =
        train(config, schedule, *operators, communicator, control, untouched_memory(), {});
    EXPECT_NEAR(emulated.step_times.front() / predicted.time.step, 1, 0.02) << name;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(emulated.memory[static_cast<std::size_t>(rank)].at_peak, predicted.memory.of_rank(rank).peak);
    }
    EXPECT_TRUE(same(predict_traffic(config, schedule)[static_cast<std::size_t>(control.rank())],
                     emulated.step_traffic));
  }
}

}  // namespace
}  // namespace plumbline::training
