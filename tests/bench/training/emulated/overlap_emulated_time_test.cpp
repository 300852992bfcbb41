// Tensor-parallel collectives alongside products on emulated H100s. The real training code on the emulated
// lanes takes as long, and waits as long for collectives, as predicted. Overlap makes the step of wide layers
// shorter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::overlap_emulated_time_test {
namespace {

struct Case {
  const char* name;
  const char* schedule;
  std::int64_t hidden;
  double step;  // at most, of the one without overlap
  bool fp8 = false;
  Recompute recompute = Recompute::none;
  bool experts = false;  // whose own products do not overlap
};
// Wide layers hide their collectives, narrow ones do not, and two broadcasts take longer than a gather of two
// ranks.
constexpr Case kCases[] = {
    {"wide", "1f1b", 4096, 0.97},
    {"narrow", "1f1b", 1024, 1.04},
    {"split backward", "zb-h1", 4096, 1.005},
    {"fp8, recomputed", "1f1b", 4096, 0.99, true, Recompute::full},
    {"mixture", "1f1b", 4096, 0.99, false, Recompute::none, true},
    {"mixture, split backward, recomputed", "zb-h1", 4096, 1.01, false, Recompute::full, true},
};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 2;
  config.model.hidden = c.hidden;
  config.model.head_dim = 128;
  config.model.heads = config.model.kv_heads = c.hidden / 128;
  config.model.ffn = 2 * c.hidden;
  if (c.experts) {
    config.model.architecture = "mixtral";
    config.model.biases.qkv = config.model.embedding.tied = false;
    config.model.ffn = c.hidden / 2;
    config.model.mixture = {8, 2, true};
  }
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 1;
  config.numerics.precision = DType::bf16;
  if (c.fp8) config.numerics.fp8.format = Fp8Format::hybrid;
  config.recompute.granularity = c.recompute;
  set_emulated(config);
  config.parallel.sequence_parallel = true;
  config.parallel.pp.schedule = c.schedule;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, {ranks, 1, 1});
  return config;
}

TEST(OverlapOnEmulatedDevices, TakesAsLongAsPredicted) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = config_of(c, world_ranks());
    Seconds measured[2];
    for (const bool overlap : {false, true}) {
      config.parallel.tp.comm_overlap = overlap;
      const EmulatedStep emulated = emulated_step(config);
      const StepTime& predicted = emulated.predicted.time;
      const Seconds step = measured[overlap ? 1 : 0] = emulated.result.step_times.front();
      const Seconds tensor = emulated.result.tensor_communication;
      const std::string figures =
          fmt::format("overlap {}: predicted {:.1f} us of which {:.1f} exposed, emulated {:.1f} and {:.1f}",
                      overlap, 1e6 * predicted.step.value, 1e6 * predicted.exposed_tensor.value,
                      1e6 * step.value, 1e6 * tensor.value);
      fmt::print("{}, {}\n", c.name, figures);
      EXPECT_NEAR(step / predicted.step, 1, 0.02) << figures;
      EXPECT_NEAR((tensor - predicted.exposed_tensor) / predicted.step, 0, 0.01) << figures;
    }
    EXPECT_LT(measured[1] / measured[0], c.step);
  }
}

}  // namespace
}  // namespace plumbline::training::overlap_emulated_time_test
