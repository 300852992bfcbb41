// Norms of attention's and the MLP's results, and norms over all heads, under several schedules and every
// recomputation, with dropout, offload and FP8. Memory action by action, messages and times are as predicted,
// gradients as without recomputation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::norm_places_step_test {
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
  model.norms.kind = placed.norm;
  model.predicted.norms = placed.norms;
  model.norms.qk = true;
  if (layout.tensor == 1) model.predicted.query_norm = QueryNorm::width;
  return model;
}

/// The `turn`-th of switches that once excluded normed results.
void set_switches(RunConfig& config, std::size_t turn) {
  if (turn % 3 == 1) config.numerics.hidden_dropout = 0.2;
  if (turn % 5 < 2 && config.recompute.granularity != Recompute::full) config.offload.num_layers = 3;
  if (turn % 4 < 2 || config.parallel.tensor > 2) return;
  config.model.head_dim = 16;
  config.model.ffn = config.model.mixture ? 32 : 128;
  config.batch.seq_length = 32;
  config.numerics.precision = DType::bf16;
  config.numerics.fp8.format = Fp8Format::hybrid;
  // The first step with delayed scales agrees on them at once; predictions are of later ones.
  config.numerics.fp8.recipe = config.parallel.sequence_parallel ? Fp8Recipe::tensorwise : Fp8Recipe::delayed;
}

TEST(NormPlaces, LeaveGradientsAsTheyAreAndMemoryAsPredicted) {
  const std::vector<Layout> layouts = layouts_of(world_ranks());
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
      config.parallel.pp.schedule = kSchedules[turn / layouts.size() % std::size(kSchedules)];
      config.parallel.sequence_parallel = turn % 2 == 0;
      config.parallel.tp.comm_overlap = turn % 4 == 0 && layout.tensor > 1 && !placed.experts;
      config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(turn % 4) : 0;
      config.numerics.precision = turn / 2 % 2 == 0 ? DType::fp32 : DType::bf16;
      config.measure.steps = 1;
      config.measure.warmup_steps = 0;
      set_recomputation(config, recomputation);
      set_switches(config, turn++);
      if (!is_planned(config)) config.parallel.pp.schedule = "1f1b";
      if (!is_planned(config)) continue;
      SCOPED_TRACE(fmt::format(
          "{} tp{} pp{} dp{} {} sp{} zero{} {} {} dropout {} offload {} fp8 {}", placed.name, layout.tensor,
          layout.pipeline, layout.data, config.parallel.pp.schedule, config.parallel.sequence_parallel,
          config.parallel.dp.zero_stage, name_of(config.numerics.precision), recomputation.name,
          config.numerics.hidden_dropout, config.offload.num_layers, config.numerics.fp8.on()));
      MpiCommunicator communicator(config.layout());
      const StepResult found = one_step(config, communicator);
      expect_routed_memory(config, found);
      expect_routed_traffic(config, found, communicator.rank());
      ++compared;
      if (recomputation.granularity == Recompute::none) continue;
      config.recompute = {};
      const StepResult plain = one_step(config, communicator);
      expect_same_bits(plain, found);
    }
  }
  fmt::print("{} steps compared\n", compared);
  EXPECT_GT(compared, 20);
}

/// On devices that compute nothing the step takes as long as predicted.
TEST(NormPlaces, TakeAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  for (const Placed& placed : kPlaced) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      RunConfig config;
      const bool tensor = placed.norms == NormPlaces::both;
      const Layout layout = tensor ? Layout{ranks, 1, 1} : Layout{1, ranks, 1};
      config.model = model_of(placed, layout);
      widen(config.model, 4, 2048);
      config.model.position.max = 2048;
      set_layout(config, layout);
      config.parallel.pp.schedule = recompute == Recompute::none ? "zb-h1" : "1f1b";
      config.parallel.sequence_parallel = true;
      config.numerics.precision = DType::bf16;
      config.batch.seq_length = 2048;
      config.batch.global_batch_size = 2;
      set_emulated(config);
      config.recompute.granularity = recompute;
      for (const Fp8Format format : {Fp8Format::none, Fp8Format::hybrid}) {
        config.numerics.fp8.format = format;
        config.numerics.hidden_dropout = format == Fp8Format::none ? 0 : 0.1;
        SCOPED_TRACE(
            fmt::format("{} {} fp8 {}", placed.name, config.parallel.pp.schedule, config.numerics.fp8.on()));
        expect_as_predicted(emulated_step(config), 0.01);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::norm_places_step_test
