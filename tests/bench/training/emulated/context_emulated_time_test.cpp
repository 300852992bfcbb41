// Sequences shared by emulated H100s: the real training code takes as long as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::context_emulated_time_test {
namespace {

struct Case {
  const char* schedule;
  std::int64_t micro_batch;
  Recompute recompute;
  std::int64_t window;
  CpCommType type = CpCommType::all_gather;
  bool balanced = true;
  bool normed = false;  // queries and keys
  bool latent = false;  // attention
};
constexpr Case kCases[] = {{"1f1b", 1, Recompute::none, 0},
                           {"1f1b", 2, Recompute::selective, 0},
                           {"zb-h1", 1, Recompute::full, 3000},
                           {"1f1b", 1, Recompute::none, 0, CpCommType::p2p},
                           {"zb-h1", 2, Recompute::selective, 3000, CpCommType::p2p},
                           {"1f1b", 1, Recompute::none, 0, CpCommType::p2p, false},
                           {"1f1b", 2, Recompute::selective, 0, CpCommType::a2a},
                           {"zb-h1", 1, Recompute::full, 3000, CpCommType::a2a},
                           {"1f1b", 1, Recompute::none, 0, CpCommType::a2a_p2p},
                           {"zb-h1", 2, Recompute::selective, 3000, CpCommType::a2a_p2p},
                           {"1f1b", 1, Recompute::full, 0, CpCommType::a2a, true, true},
                           {"zb-h1", 1, Recompute::none, 0, CpCommType::a2a_p2p, true, true},
                           {"1f1b", 1, Recompute::none, 0, CpCommType::p2p, true, false, true},
                           {"zb-h1", 1, Recompute::selective, 0, CpCommType::all_gather, true, false, true},
                           {"1f1b", 1, Recompute::full, 0, CpCommType::a2a_p2p, true, false, true}};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = small_qwen2();
  widen(config.model, 2, 4096);
  config.model.window.size = c.window;
  config.model.norms.qk = c.normed;
  if (c.latent) {
    config.model.kv_heads = config.model.heads;
    config.model.latent = {512, 256, 128, 64, 128};
    config.model.head_dim = 192;
    config.model.rotary.dim = 64;
    config.model.biases.qkv = false;
  }
  config.batch = {.seq_length = 16384, .micro_batch_size = c.micro_batch, .global_batch_size = 2};
  config.model.position.max = config.batch.seq_length;
  config.numerics.precision = DType::bf16;
  config.recompute.granularity = c.recompute;
  set_emulated(config);
  config.parallel.pp.schedule = c.schedule;
  config.parallel.world_size = config.parallel.context = ranks;
  config.parallel.cp.comm_type = c.type;
  if (c.type == CpCommType::a2a_p2p) config.parallel.cp.hierarchical = {2, ranks / 2};
  config.parallel.cp.load_balance = c.balanced;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  return config;
}

TEST(ContextOnEmulatedDevices, TakesAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if ((c.type == CpCommType::a2a_p2p) != (ranks == 4)) continue;
    const RunConfig config = config_of(c, ranks);
    const EmulatedStep step = emulated_step(config);
    const StepTime& predicted = step.predicted.time;
    const TrainingResult& result = step.result;
    const std::string figures = fmt::format(
        "{} micro-batch {} window {}: predicted {:.1f} us of which {:.1f} exposed, emulated {:.1f} and "
        "{:.1f}",
        c.schedule, c.micro_batch, c.window, 1e6 * predicted.step.value, 1e6 * predicted.exposed_tensor.value,
        1e6 * result.step_times.front().value, 1e6 * result.tensor_communication.value);
    fmt::print("{}\n", figures);
    EXPECT_NEAR(result.step_times.front() / predicted.step, 1, 0.02) << figures;
    // In a window early chunks have fewer pairs: their ranks wait for the others in the collectives.
    if (c.window > 0 || !c.balanced) continue;
    EXPECT_NEAR((result.tensor_communication - predicted.exposed_tensor) / predicted.step, 0, 0.01)
        << figures;
  }
}

}  // namespace
}  // namespace plumbline::training::context_emulated_time_test
