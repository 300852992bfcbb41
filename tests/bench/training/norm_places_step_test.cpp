// Norms of attention's and the MLP's results, and norms over all heads, under several schedules and every
// recomputation. Memory action by action, messages and times are as predicted, gradients as without
// recomputation.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <iterator>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {
namespace {

struct Placed {
  const char* name;
  const char* architecture;  // whose norms have names of their own
  NormPlaces norms;
  bool experts = false;
  Norm norm = Norm::rms;
};
constexpr Placed kPlaced[] = {{"after", "olmo2", NormPlaces::after},
                              {"both", "gemma2", NormPlaces::both},
                              {"after, experts", "olmoe", NormPlaces::after, true},
                              {"both, experts", "gemma2", NormPlaces::both, true},
                              {"both, LayerNorm", "gemma2", NormPlaces::both, false, Norm::layer}};

ModelConfig model_of(const Placed& placed, const Layout& layout) {
  ModelConfig model = placed.experts ? small_mixture(true) : small_qwen2();
  model.architecture = placed.architecture;
  model.norm = placed.norm;
  model.predicted.norms = placed.norms;
  model.qk_norm = true;
  if (layout.tensor == 1) model.predicted.query_norm = QueryNorm::width;
  return model;
}

int ranks_of_this_run() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

bool is_planned(const RunConfig& config) {
  if (why_invalid(config)) return false;
  try {
    schedule_for(config);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void expect_timeline(const RunConfig& config, const StepResult& found) {
  const MemoryPrediction prediction = predict_memory(config, schedule_for(config), MemoryDetail::timeline);
  for (std::size_t rank = 0; rank < found.memory.size(); ++rank)
    EXPECT_EQ(prediction.of_rank(static_cast<int>(rank)).peak, found.memory[rank].at_peak) << "rank " << rank;
  for (std::size_t rank = 0; rank < found.samples.size(); ++rank) {
    const auto& expected = prediction.ranks[rank].timeline;
    ASSERT_EQ(expected.size(), found.samples[rank].size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(expected[i], found.samples[rank][i]) << "pipeline rank " << rank << " action " << i;
  }
}

TEST(NormPlaces, LeaveGradientsAsTheyAreAndMemoryAsPredicted) {
  const std::vector<Layout> layouts = layouts_of(ranks_of_this_run());
  constexpr const char* kSchedules[] = {"1f1b", "zb-h1", "zb-v"};
  int compared = 0;
  std::size_t turn = 0;
  for (const Placed& placed : kPlaced) {
    for (const Recomputation& recomputation : kRecomputations) {
      const Layout layout = layouts[turn % layouts.size()];
      RunConfig config;
      config.model = model_of(placed, layout);
      set_layout(config, layout);
      config.batch.seq_length = 12;
      config.batch.global_batch_size = 8;
      config.parallel.make_vocab_size_divisible_by = 8;
      config.parallel.schedule = kSchedules[turn / layouts.size() % std::size(kSchedules)];
      config.parallel.sequence_parallel = turn % 2 == 0;
      config.parallel.tp_comm_overlap = turn % 4 == 0 && layout.tensor > 1 && !placed.experts;
      config.parallel.zero_stage = layout.data > 1 ? static_cast<int>(turn % 4) : 0;
      config.numerics.precision = turn / 2 % 2 == 0 ? DType::fp32 : DType::bf16;
      config.measure.steps = 1;
      config.measure.warmup_steps = 0;
      set_recomputation(config, recomputation);
      ++turn;
      if (!is_planned(config)) config.parallel.schedule = "1f1b";
      if (!is_planned(config)) continue;
      SCOPED_TRACE(fmt::format("{} tp{} pp{} dp{} {} sp{} zero{} {} {}", placed.name, layout.tensor,
                               layout.pipeline, layout.data, config.parallel.schedule,
                               config.parallel.sequence_parallel, config.parallel.zero_stage,
                               name_of(config.numerics.precision), recomputation.name));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_timeline(config, found);
      const auto rank = static_cast<std::size_t>(communicator.rank());
      EXPECT_TRUE(same(predict_traffic(config, schedule_for(config))[rank], found.traffic));
      ++compared;
      if (recomputation.granularity == Recompute::none) continue;
      config.recompute = {};
      const StepResult plain = one_step(config, communicator);
      EXPECT_EQ(found.loss, plain.loss);
      EXPECT_EQ(found.gradient_norm, plain.gradient_norm);
      EXPECT_TRUE(found.gradients == plain.gradients);
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 20);
}

/// On devices that compute nothing the step takes as long as predicted.
TEST(NormPlaces, TakeAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = ranks_of_this_run();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  for (const Placed& placed : kPlaced) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      RunConfig config;
      const bool tensor = placed.norms == NormPlaces::both;
      const Layout layout = tensor ? Layout{ranks, 1, 1} : Layout{1, ranks, 1};
      config.model = model_of(placed, layout);
      config.model.layers = 4;
      config.model.hidden = 2048;
      config.model.head_dim = 128;
      config.model.heads = 16;
      config.model.kv_heads = 4;
      config.model.ffn = 2048;
      config.model.max_positions = 2048;
      set_layout(config, layout);
      config.parallel.schedule = recompute == Recompute::none ? "zb-h1" : "1f1b";
      config.parallel.sequence_parallel = true;
      config.numerics.precision = DType::bf16;
      config.batch.seq_length = 2048;
      config.batch.global_batch_size = 2;
      config.machine.backend = Backend::emulated;
      config.machine.hardware = "h100-sxm-80gb";
      config.recompute.granularity = recompute;
      SCOPED_TRACE(fmt::format("{} {}", placed.name, config.parallel.schedule));
      const HardwareProfile hardware = load_hardware(config.machine.hardware);
      const Schedule schedule = schedule_for(config);
      const Prediction predicted = predict(config, schedule, hardware);
      MpiCommunicator control(config.layout());
      EmulatedClock clock = EmulatedClock::of_virtual_time();
      EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
      const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
      const TrainingResult result =
          train(config, schedule, *operators, communicator, control, untouched_memory(), {});
      EXPECT_NEAR(result.step_times.front() / predicted.time.step, 1, 0.01);
    }
  }
}

}  // namespace
}  // namespace plumbline::training
