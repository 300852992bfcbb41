// Deferred output-layer weight gradients on emulated accelerators. The real training code takes as long as
// predicted, and less than without where the last rank is the slowest.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::deferred_output_emulated_time_test {
namespace {

struct Case {
  const char* name;
  const char* schedule;
  Layout layout;
  int zero = 0;
  bool shorter = true;  // the step with deferred gradients
};
constexpr Case kCases[] = {
    {"two stages", "1f1b", {1, 2, 1}},
    {"two stages twice", "interleaved", {1, 2, 1}},
    {"gpipe", "gpipe", {1, 2, 1}},
    {"four stages", "1f1b", {1, 4, 1}},
    {"tensor ranks", "1f1b", {2, 2, 1}},
    {"replicas", "1f1b", {1, 2, 2}},
    {"sharded states", "1f1b", {1, 2, 2}, 1},
    // Their reductions, one a micro-batch, have nothing beside them at the step's end.
    {"sharded gradients", "interleaved", {1, 2, 2}, 2, false},
    {"sharded parameters", "1f1b", {1, 2, 2}, 3},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.embedding.tied = false;
  widen(config.model, 8, 6144, 8);
  config.model.vocab = 64000;  // as much as three layers
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 8 * c.layout.data;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.parallel.pp.schedule = c.schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, c.layout);
  return config;
}

TEST(DeferredOutputOnEmulatedDevices, TakesAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    SCOPED_TRACE(c.name);
    RunConfig config = config_of(c);
    Seconds without;
    for (const bool defers : {false, true}) {
      config.parallel.pp.defer_embedding_wgrad_compute = defers;
      const EmulatedStep emulated = emulated_step(config);
      const Seconds step = emulated.result.step_times.front();
      const std::string figures =
          fmt::format("{}: predicted {:.1f} us, emulated {:.1f}", defers ? "deferred" : "at once",
                      1e6 * emulated.predicted.time.step.value, 1e6 * step.value);
      fmt::print("{}, {}\n", c.name, figures);
      SCOPED_TRACE(figures);
      expect_as_predicted(emulated, 0.01);
      if (defers) {
        EXPECT_EQ(step < without, c.shorter) << figures;
      }
      without = step;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::deferred_output_emulated_time_test
