// Quantized frozen weights and 8-bit optimizer states, against closed forms and torchtune's figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/parameter_units.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::frozen_weights_test {
namespace {

RunConfig qlora(const std::vector<std::pair<std::string, std::string>>& settings) {
  Overrides overrides = {{"model", "llama-3.1-8b", ""},
                         {"hardware", "a100-sxm-80gb", ""},
                         {"software", "deepspeed", ""},
                         {"precision", "bf16", ""},
                         {"frozen", "canonical_lora", ""},
                         {"lora_targets", "all", ""},
                         {"lora_rank", "8", ""},
                         {"seq_length", "2048", ""},
                         {"make_vocab_size_divisible_by", "1", ""}};
  for (const auto& [key, value] : settings) overrides.push_back({key, value, ""});
  return load_run_config("", overrides);
}

MemoryBreakdown held(const RunConfig& config) {
  const std::vector<StageShape> stages = stage_shapes(config, 1);
  return framework_held_bytes({stages.data(), 1});
}

constexpr std::int64_t kLinear = 32 * (4096 * 6144 + 4096 * 4096 + 3 * std::int64_t{4096} * 14336);
constexpr std::int64_t kOutputs = 32 * (6144 + 4096 + 2 * 14336 + 4096);

// 4 bits and an fp32 scale of 64, or an 8-bit one with fp32 ones of 256 of them; 8 bits and one of every row;
// GPTQ's fp16 scale and 4-bit zero of 128 (QLoRA, arXiv:2305.14314, section 3; LLM.int8(), arXiv:2208.07339).
TEST(FrozenWeights, TakeTheBytesOfTheirBlocks) {
  const std::int64_t native = held(qlora({}))[Category::parameters].value;
  const auto linear = static_cast<double>(kLinear);
  const std::pair<const char*, double> cases[] = {
      {"nf4", linear * (0.5 + 4.0 / 64)},
      {"nf4_double", linear * (0.5 + 1.0 / 64 + 4.0 / (64 * 256))},
      {"int8", linear + 4.0 * kOutputs},
      {"int4", linear * (0.5 + 2.5 / 128)}};
  for (const auto& [weights, bytes] : cases) {
    const MemoryBreakdown memory = held(qlora({{"frozen_weights", weights}}));
    EXPECT_NEAR(static_cast<double>(native - memory[Category::parameters].value), 2 * linear - bytes, 2)
        << weights;
  }
}

// FSDP cuts packed weights; bitsandbytes' scales stay whole, torchao's do not.
TEST(FrozenWeights, AreShardedWithoutTheirScales) {
  for (const auto& [software, shards] : {std::pair{"torchtitan", 1}, std::pair{"torchtune", 8}}) {
    const auto bytes = [&, name = software](const char* weights) {
      return held(qlora({{"software", name},
                         {"zero_stage", "3"},
                         {"world_size", "8"},
                         {"global_batch_size", "8"},
                         {"frozen_weights", weights}}))[Category::parameters]
          .value;
    };
    EXPECT_NEAR(static_cast<double>(bytes("native") - bytes("nf4")),
                static_cast<double>(kLinear) * (1.5 / 8 - 4.0 / 64 / shards), 4)
        << software;
  }
}

/// Bytes that kernels named `name` move in an action.
double moved(const StageShape& shape, ActionType type, std::string_view name) {
  double bytes = 0;
  for (const UnitWork& part : framework_work(shape, type).parts)
    for (const OperatorCall& call : part.calls)
      if (call.name() == name)
        bytes +=
            static_cast<double>(call.as<StreamCall>()->elements) * call.as<StreamCall>()->bytes_per_element;
  return bytes;
}

// Every product's weight is made anew before it, in the backward too, and once more by recomputation.
TEST(FrozenWeights, AreDequantizedBeforeEveryProduct) {
  const auto shape = [](const char* weights, const char* recompute) {
    return stage_shapes(qlora({{"frozen_weights", weights}, {"recompute_granularity", recompute}}), 1)
        .front();
  };
  const double once = static_cast<double>(kLinear) / 32 * (0.5 + 4.0 / 64 + 2);  // of a layer, for all alike
  const StageShape nf4 = shape("nf4", "none");
  EXPECT_NEAR(moved(nf4, ActionType::forward, "dequantize"), once, 1);
  EXPECT_NEAR(moved(nf4, ActionType::backward, "dequantize"), once, 1);
  EXPECT_NEAR(moved(shape("nf4", "full"), ActionType::backward, "dequantize"), 2 * once, 1);
  EXPECT_EQ(moved(shape("native", "none"), ActionType::backward, "dequantize"), 0);
  // 8-bit scales become fp32 ones, to which their mean is added; GPTQ's of 128 elements are read.
  const double double_scales = (1 + 4 + 8 + 4) / 64.0;
  EXPECT_NEAR(moved(shape("nf4_double", "none"), ActionType::forward, "dequantize"),
              static_cast<double>(kLinear) / 32 * (0.5 + double_scales + 2), 1);
  EXPECT_NEAR(moved(shape("int4", "none"), ActionType::forward, "dequantize"),
              static_cast<double>(kLinear) / 32 * (0.5 + 2.5 / 128 + 2), 1);
  const StageShape int8 = shape("int8", "none");
  EXPECT_EQ(moved(int8, ActionType::forward, "dequantize"), 0);
  EXPECT_GT(moved(int8, ActionType::forward, "cast from int32"), 0);
  EXPECT_NEAR(moved(int8, ActionType::backward, "dequantize"), static_cast<double>(kLinear) / 32 * 7, 1);
  // The largest one is there in 16 bits meanwhile.
  StageShape inner = nf4;
  inner.place.last = false;
  StageShape plain = shape("native", "none");
  plain.place.last = false;
  EXPECT_EQ(framework_action_profile(inner, ActionType::backward).peak[Category::workspace].value -
                framework_action_profile(plain, ActionType::backward).peak[Category::workspace].value,
            2 * 4096 * 14336);
}

TEST(FrozenWeights, AreGatheredPacked) {
  const auto gathered = [](const char* weights) {
    const StageShape shape = stage_shapes(qlora({{"software", "torchtitan"},
                                                 {"zero_stage", "3"},
                                                 {"world_size", "8"},
                                                 {"global_batch_size", "8"},
                                                 {"frozen_weights", weights}}),
                                          1)
                                 .front();
    std::int64_t bytes = 0;
    for (const UnitWork& part : framework_work(shape, ActionType::forward).parts)
      if (!part.apart) bytes = std::max(bytes, part.gather.elements() * size_of(part.gather.type));
    return bytes;
  };
  EXPECT_EQ(gathered("native"), 4 * gathered("nf4"));
}

// torchtune's README (meta-pytorch/torchtune@bd2a0fc7): batch 2, torch.compile, activation checkpointing;
// activations of the 3B model go to the host there, which the prediction keeps.
TEST(FrozenWeights, AgreeWithTorchtune) {
  struct Case {
    const char* model;
    const char* hardware;
    const char* tokens;
    double gib;
    double rate;
    bool offloaded;
  };
  for (const Case& c : {Case{"llama-3.1-8b", "rtx-4090-24gb", "2048", 7.4, 2413, false},
                        Case{"llama-3.2-3b", "a100-sxm-80gb", "4096", 4.6, 8035, true}}) {
    const RunConfig config = qlora({{"model", c.model},
                                    {"hardware", c.hardware},
                                    {"software", "torchtune-compile"},
                                    {"frozen_weights", "nf4_double"},
                                    {"seq_length", c.tokens},
                                    {"micro_batch_size", "2"},
                                    {"global_batch_size", "2"},
                                    {"recompute_granularity", "full"}});
    const Prediction prediction =
        predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
    const MemoryBreakdown& peak = prediction.memory.ranks.front().peak;
    const std::int64_t bytes =
        prediction.memory.peak.value - (c.offloaded ? peak[Category::activations].value : 0);
    EXPECT_NEAR(static_cast<double>(bytes) / (1 << 30), c.gib, 0.06 * c.gib) << c.model;
    const double tokens = 2.0 * static_cast<double>(config.batch.seq_length);
    EXPECT_NEAR(tokens / prediction.time.step.value, c.rate, 0.07 * c.rate) << c.model;
  }
}

// A byte and an fp32 scale of 256 per moment, instead of torchtune's bf16 or the others' fp32 moments; norms
// of fewer than 4096 elements keep fp32.
TEST(FrozenWeights, LeaveRoomForEightBitStates) {
  for (const auto& [model, software, moments] :
       {std::tuple{"llama-3.1-8b", "deepspeed", 8}, std::tuple{"llama-3.1-8b", "torchtune", 4},
        std::tuple{"llama-3.2-3b", "deepspeed", 8}}) {
    const auto states = [&, model = model, software = software](const char* type) {
      return qlora({{"model", model},
                    {"frozen", "none"},
                    {"software", software},
                    {"exp_avg_dtype", type},
                    {"exp_avg_sq_dtype", type}});
    };
    const RunConfig eight = states("int8");
    const double each = 2 * (1 + 4.0 / 256);
    const double saved = (moments - each) * static_cast<double>(eight.model.parameters());
    const std::int64_t norms = (2 * eight.model.layers + 1) * eight.model.hidden;
    const double kept = eight.model.hidden < 4096 ? (8 - each) * static_cast<double>(norms) : 0;
    EXPECT_NEAR(static_cast<double>(held(states("fp32"))[Category::optimizer].value -
                                    held(eight)[Category::optimizer].value),
                saved - kept, 2)
        << model << ' ' << software;
  }
}

TEST(FrozenWeights, AreRefusedWhereTheyCannotBe) {
  const std::tuple<std::vector<std::pair<std::string, std::string>>, const char*> cases[] = {
      {{{"frozen", "none"}}, "frozen_weights: found nf4 with frozen none, whose weights train"},
      {{{"software", "plumbline"}, {"frozen", "lora"}}, "frozen_weights: found nf4 with software plumbline"},
      {{{"software", "megatron-core"}}, "which has no such weights; expected native, or software: deepspeed"},
      {{{"software", "torchtitan"}, {"frozen_weights", "int8"}, {"world_size", "2"}},
       "frozen_weights: found int8 with sharded parameters"},
      {{{"exp_avg_dtype", "int8"}}, "exp_avg_dtype: found int8 with exp_avg_sq_dtype fp32"},
      {{{"software", "megatron-core"},
        {"frozen_weights", "native"},
        {"exp_avg_dtype", "int8"},
        {"exp_avg_sq_dtype", "int8"}},
       "exp_avg_dtype: found int8 with megatron-core, whose optimizer has no 8-bit states"}};
  for (const auto& [settings, message] : cases) {
    std::vector<std::pair<std::string, std::string>> all = {{"frozen_weights", "nf4"}};
    all.insert(all.end(), settings.begin(), settings.end());
    std::string refusal;
    try {
      const RunConfig config = qlora(all);
      refusal = why_invalid(config).value_or("");
      if (refusal.empty())
        refusal = why_unpredictable(config, *find_hardware_preset(config.machine.hardware)).value_or("");
    } catch (const InputError& error) {
      refusal = error.what();
    }
    EXPECT_THAT(refusal, testing::HasSubstr(message));
  }
}

}  // namespace
}  // namespace plumbline::frozen_weights_test
