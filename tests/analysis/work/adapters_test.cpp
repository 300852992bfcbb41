// LoRA in the training steps of other frameworks, against closed forms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/operator_list.hpp"
#include "analysis/work/parameter_units.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::adapters_test {
namespace {

RunConfig adapted_llama(Frozen frozen, LoraTargets targets = LoraTargets::attention) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.batch = {.seq_length = 1024, .micro_batch_size = 2, .global_batch_size = 16};
  config.numerics.precision = DType::bf16;
  config.parallel.make_vocab_size_divisible_by = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-core";
  config.finetune = {.frozen = frozen, .lora_rank = 16, .lora_targets = targets};
  return config;
}

StageShape only_stage(const RunConfig& config) {
  return stage_shapes(config, 1).front();
}

Flops sum_of(const std::vector<OperatorCall>& calls) {
  Flops sum;
  for (const OperatorCall& call : calls) sum += flops_of(call);
  return sum;
}

TEST(Adapters, HaveAsManyParametersAsTheirProductsSay) {
  struct Case {
    LoraTargets targets;
    std::int64_t widths;   // inputs and outputs of a layer's adapted products
    std::int64_t more_as;  // with an A each for q, k and v, and for gate and up
  };
  constexpr std::int64_t h = 4096, qkv = 6144, up = 2 * 14336, ffn = 14336;
  for (const Case& c : {Case{LoraTargets::qkv, h + qkv, 2}, Case{LoraTargets::attention, h + qkv + 2 * h, 2},
                        Case{LoraTargets::all, h + qkv + 2 * h + h + up + ffn + h, 3}}) {
    for (const Frozen frozen : {Frozen::lora, Frozen::canonical_lora}) {
      RunConfig config = adapted_llama(frozen, c.targets);
      const std::int64_t more = frozen == Frozen::canonical_lora ? c.more_as * h : 0;
      const std::int64_t parameters = 32 * 16 * (c.widths + more);
      EXPECT_EQ(adapter_parameters(config), parameters);
      for (const int tensor : {1, 4}) {
        config.parallel.tensor = config.parallel.world_size = tensor;
        EXPECT_EQ(trainable_elements(only_stage(config)) * tensor, parameters) << tensor;
      }
      config.parallel.tensor = config.parallel.world_size = 1;
      config.machine.software = "plumbline";
      EXPECT_EQ(trainable_elements(only_stage(config)), parameters);
    }
  }
  EXPECT_EQ(adapter_parameters(adapted_llama(Frozen::none)), 0);
}

// The frozen weights have no gradient; an adapter's own are three products as everywhere.
TEST(Adapters, ReplaceTheWeightGradients) {
  const StageShape whole = only_stage(adapted_llama(Frozen::none));
  const auto products =
      static_cast<double>(whole.layers * layer_matrices(whole) + whole.ends.vocab * whole.stream.hidden);
  const auto tokens = static_cast<double>(whole.stream.tokens);
  for (const LoraTargets targets : {LoraTargets::qkv, LoraTargets::attention, LoraTargets::all}) {
    const RunConfig config = adapted_llama(Frozen::lora, targets);
    const StageShape shape = only_stage(config);
    const auto adapters = static_cast<double>(adapter_parameters(config));
    EXPECT_DOUBLE_EQ(sum_of(forward_calls(shape)).value,
                     sum_of(forward_calls(whole)).value + 2 * tokens * adapters);
    EXPECT_DOUBLE_EQ(sum_of(backward_calls(shape)).value,
                     sum_of(backward_calls(whole)).value - 2 * tokens * products + 4 * tokens * adapters);
    EXPECT_DOUBLE_EQ(model_flops_per_token(config).value,
                     model_flops_per_token(adapted_llama(Frozen::none)).value -
                         2.0 * static_cast<double>(matmul_parameters(config.model)) + 6 * adapters);
  }
}

TEST(Adapters, AloneHaveGradientsAndStates) {
  RunConfig config = adapted_llama(Frozen::lora);
  config.parallel.world_size = 4;
  const auto adapters = static_cast<double>(adapter_parameters(config));
  for (const int zero : {0, 1, 3}) {  // Megatron has no stage 2
    config.parallel.dp.zero_stage = zero;
    const Prediction prediction =
        predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
    const MemoryBreakdown& peak = prediction.memory.ranks.front().peak;
    const double sharded = zero == 0 ? 1 : 4;
    EXPECT_NEAR(static_cast<double>(peak[Category::optimizer].value), adapters * 12 / sharded, 2) << zero;
    EXPECT_NEAR(static_cast<double>(peak[Category::gradients].value), adapters * 4 / (zero >= 2 ? 4 : 1), 2);
    EXPECT_GE(static_cast<double>(peak[Category::parameters].value),
              2.0 * static_cast<double>(config.model.parameters()) / (zero >= 3 ? 4 : 1));
    std::int64_t reduced = 0;
    for (const GradientBucket& bucket : gradient_buckets(only_stage(config), 1)) {
      EXPECT_GT(bucket.reduce.elements(), 0);
      reduced += bucket.reduce.elements();
    }
    EXPECT_EQ(reduced, zero >= 2 ? 0 : adapter_parameters(config));
  }
}

// Software that updates fp32 weights holds frozen ones in 16 bits all the same.
TEST(Adapters, LeaveFrozenWeightsInTheirOwnType) {
  int compared = 0;
  for (const auto& [name, software] : built_in_profiles().software) {
    if (software.own_step) continue;
    RunConfig config = adapted_llama(Frozen::lora);
    config.machine.software = name;
    for (const DType type : {DType::bf16, DType::fp32}) {
      config.numerics.precision = type;
      const StageShape shape = only_stage(config);
      const SoftwareMemory& memory = software.memory;
      const double trained = memory.state_bytes - memory.gradient_bytes - memory.optimizer_state_bytes;
      const auto frozen = static_cast<double>(name == "verl" ? size_of(DType::fp32) : size_of(type));
      EXPECT_NEAR(static_cast<double>(framework_held_bytes({&shape, 1})[Category::parameters].value),
                  frozen * static_cast<double>(config.model.parameters()) +
                      trained * static_cast<double>(adapter_parameters(config)),
                  2)
          << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

// Every way to split the step has an answer, and takes less time than training everything.
TEST(Adapters, TakeLessTimeInEverySplit) {
  struct Case {
    int tensor, pipeline, data, zero;
    Recompute recompute;
    bool overlap;
    const char* model;
  };
  for (const Case& c : {Case{1, 2, 2, 0, Recompute::none, false, "qwen2.5-0.5b"},
                        Case{4, 1, 1, 0, Recompute::full, false, "llama-3.1-8b"},
                        Case{4, 2, 2, 1, Recompute::none, true, "llama-3.1-8b"},
                        Case{2, 1, 4, 3, Recompute::selective, false, "llama-3.1-8b"},
                        Case{1, 4, 2, 1, Recompute::none, false, "qwen2.5-0.5b"}}) {
    const auto step = [&](Frozen frozen) {
      RunConfig config = adapted_llama(frozen);
      config.model = *find_preset(c.model);
      config.parallel.tensor = c.tensor;
      config.parallel.pipeline = c.pipeline;
      config.parallel.world_size = c.tensor * c.pipeline * c.data;
      config.parallel.dp.zero_stage = c.zero;
      config.parallel.sequence_parallel = c.tensor > 1;
      config.parallel.tp.comm_overlap = c.overlap;
      config.recompute.granularity = c.recompute;
      return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware)).time.step;
    };
    EXPECT_LT(step(Frozen::lora).value, step(Frozen::none).value)
        << fmt::format("t{} p{} d{} zero {}", c.tensor, c.pipeline, c.data, c.zero);
  }
}

}  // namespace
}  // namespace plumbline::adapters_test
