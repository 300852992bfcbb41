// Deferred output-layer weight gradients on emulated accelerators. The real training code takes as long as
// predicted, and less than without where the last rank is the slowest.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {
namespace {

struct Case {
  const char* name;
  const char* schedule;
  Layout layout;
  int zero = 0;
};
constexpr Case kCases[] = {
    {"two stages", "1f1b", {1, 2, 1}},
    {"two stages twice", "interleaved", {1, 2, 1}},
    {"gpipe", "gpipe", {1, 2, 1}},
    {"four stages", "1f1b", {1, 4, 1}},
    {"tensor ranks", "1f1b", {2, 2, 1}},
    {"replicas", "1f1b", {1, 2, 2}},
    {"sharded states", "1f1b", {1, 2, 2}, 1},
    {"sharded gradients", "interleaved", {1, 2, 2}, 2},
    {"sharded parameters", "1f1b", {1, 2, 2}, 3},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.tied_embeddings = false;
  config.model.layers = 8;
  config.model.hidden = 2048;
  config.model.head_dim = 128;
  config.model.heads = 16;
  config.model.kv_heads = 8;
  config.model.ffn = 6144;
  config.model.vocab = 64000;  // as much as three layers
  config.batch.seq_length = config.model.max_positions = 4096;
  config.batch.global_batch_size = 8 * c.layout.data;
  config.numerics.precision = DType::bf16;
  config.machine.backend = Backend::emulated;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.schedule = c.schedule;
  if (config.parallel.schedule == "interleaved") config.parallel.virtual_chunks = 2;
  config.parallel.zero_stage = c.zero;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, c.layout);
  return config;
}

TEST(DeferredOutputOnEmulatedDevices, TakesAsLongAsPredicted) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    SCOPED_TRACE(c.name);
    RunConfig config = config_of(c);
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    Seconds without;
    for (const bool defers : {false, true}) {
      config.parallel.defer_embedding_wgrad_compute = defers;
      const Prediction prediction = predict(config, schedule_for(config), hardware);
      MpiCommunicator control(config.layout());
      EmulatedClock clock = EmulatedClock::of_virtual_time();
      EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()));
      const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
      const TrainingResult result =
          train(config, schedule_for(config), *operators, communicator, control, untouched_memory(), {});
      const Seconds step = result.step_times.front();
      const std::string figures =
          fmt::format("{}: predicted {:.1f} us, emulated {:.1f}", defers ? "deferred" : "at once",
                      1e6 * prediction.time.step.value, 1e6 * step.value);
      fmt::print("{}, {}\n", c.name, figures);
      EXPECT_NEAR(step / prediction.time.step, 1, 0.01) << figures;
      if (defers) {
        EXPECT_LT(step.value, without.value) << figures;
      }
      without = step;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(result.memory[static_cast<std::size_t>(rank)].at_peak,
                  prediction.memory.of_rank(rank).peak);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training
