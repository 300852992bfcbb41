// LoRA on emulated accelerators: the real training code takes as long as predicted, and less than without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::lora_emulated_time_test {
namespace {

struct Case {
  Layout layout;
  LoraTargets targets;
  int zero = 0;
  bool overlap = true;
  Frozen frozen = Frozen::lora;
  bool experts = false;
  const char* schedule = "1f1b";
};
constexpr Case kCases[] = {
    {{1, 1, 1}, LoraTargets::qkv},
    {{1, 1, 1}, LoraTargets::attention},
    {{1, 1, 1}, LoraTargets::all},
    {{2, 1, 1}, LoraTargets::all},
    {{1, 2, 1}, LoraTargets::attention},
    {{1, 1, 2}, LoraTargets::all},
    {{1, 1, 2}, LoraTargets::all, 1},
    {{1, 1, 2}, LoraTargets::all, 1, false},
    {{1, 1, 2}, LoraTargets::all, 2},
    {{1, 1, 2}, LoraTargets::attention, 2, false},
    {{1, 1, 1}, LoraTargets::all, 0, true, Frozen::canonical_lora},
    {{2, 1, 1}, LoraTargets::all, 0, true, Frozen::canonical_lora},
    {{1, 1, 1}, LoraTargets::attention, 0, true, Frozen::lora, true},
    {{1, 2, 1}, LoraTargets::all, 0, true, Frozen::lora, false, "zb-h1"},
    {{2, 1, 1}, LoraTargets::attention, 0, true, Frozen::lora, true, "zb-h1"},
    {{2, 1, 1}, LoraTargets::attention, 0, true, Frozen::lora, true},
    {{1, 1, 2}, LoraTargets::attention, 0, true, Frozen::lora, true},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = c.experts ? small_mixture(false) : small_qwen2();
  if (c.experts) config.model.mixture.experts = 8;
  config.model.layers = 6;
  config.model.hidden = 4096;
  config.model.head_dim = 128;
  config.model.heads = 32;
  config.model.kv_heads = 8;
  config.model.ffn = (c.experts ? 1 : 3) * 4096;
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 4;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.dp.overlap_grad_reduce = c.overlap;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  config.parallel.pp.schedule = c.schedule;
  set_layout(config, c.layout);
  if (c.experts) config.parallel.expert = c.layout.data;
  return config;
}

TEST(LoraOnEmulatedDevices, TakesAsLongAsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (c.layout.world() != ranks) continue;
    RunConfig config = config_of(c);
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    const Seconds all = predict(config, schedule_for(config), hardware).time.step;
    config.finetune = {c.frozen, 32, 64, c.targets};
    const EmulatedStep emulated = emulated_step(config);
    const Seconds step = emulated.result.step_times.front();
    const std::string figures = fmt::format(
        "tp{} pp{} dp{} zero {} targets {}: predicted {:.1f} us, emulated {:.1f}, all parameters {:.1f}",
        c.layout.tensor, c.layout.pipeline, c.layout.data, c.zero, static_cast<int>(c.targets),
        1e6 * emulated.predicted.time.step.value, 1e6 * step.value, 1e6 * all.value);
    fmt::print("{}\n", figures);
    SCOPED_TRACE(figures);
    expect_as_predicted(emulated, 0.01);
    EXPECT_LT(step.value, 0.9 * all.value);
  }
}

}  // namespace
}  // namespace plumbline::training::lora_emulated_time_test
