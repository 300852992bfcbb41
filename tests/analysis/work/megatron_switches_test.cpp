// Switches of Megatron-Core's recipes: bytes by closed forms, and the direction of times.
#include "analysis/work/parameter_units.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::megatron_switches_test {
namespace {

using namespace frameworks;

constexpr std::int64_t kRanks = 8;

/// DeepSeek-V3's layers on H200, a few of them.
RunConfig deepseek(std::int64_t layers = 4) {
  RunConfig config = mixture("deepseek-v3", 1, 8, 1, static_cast<int>(kRanks));
  config.model.layers = layers;
  config.machine.hardware = "gb300-nvl72";
  return config;
}

TEST(MegatronSwitches, AdamsStatesInFewerBytes) {
  struct Case {
    MomentDType first, second;
    bool remainders;
    std::int64_t held;  // bytes per parameter less than with fp32 states
    double moved;       // and moved less by an update, with fp32 gradients
  };
  for (const Case& c : {Case{MomentDType::bf16, MomentDType::bf16, false, 4, 8},
                        {MomentDType::fp8, MomentDType::fp16, false, 5, 10},
                        {MomentDType::fp32, MomentDType::fp32, true, 2, 6},
                        {MomentDType::bf16, MomentDType::bf16, true, 6, 14}}) {
    RunConfig config = llama("megatron-core", 1, 1);
    config.parallel.world_size = 1;
    config.machine.hardware = "b300-sxm-270gb";
    const Bytes plain = held_bytes(config)[Category::optimizer];
    const auto update = [&] {
      HeldStages rank;
      rank.held = {first_shape(config)};
      rank.of_first_route = 1;
      for (const OperatorCall& call : framework_update_calls(rank))
        if (call.name() == "optimizer step") return call.as<StreamCall>()->bytes_per_element;
      return 0.0;
    };
    const double moved = update();
    config.optimizer.exp_avg_dtype = c.first;
    config.optimizer.exp_avg_sq_dtype = c.second;
    config.optimizer.store_param_remainders = c.remainders;
    ASSERT_EQ(why_invalid(config), std::nullopt);
    EXPECT_EQ(plain.value - held_bytes(config)[Category::optimizer].value,
              c.held * config.model.parameters());
    EXPECT_EQ(moved - update(), c.moved);
    for (const char* other : {"torchtitan", "deepspeed"}) {
      config.machine.software = other;
      expect_refused(config, "whose optimizer has fp32 states");
    }
    config.machine.software = "plumbline";
    EXPECT_THAT(why_invalid(config).value_or(""),
                testing::HasSubstr("with software plumbline, whose states are fp32"));
  }
}

/// Buffers of a rank's experts hold a multiple of its mean rows, or those kept in pages do.
TEST(MegatronSwitches, BuffersOfExpertsAreAsLargeAsTheirCapacity) {
  RunConfig config = deepseek();
  const StageShape plain = shape_of(config);
  // Input, result of fc1 and of the activation in bf16.
  const std::int64_t each = plain.expert.rows * 2 * (7168 + 2 * 2048 + 2048);
  config.mixture.rank_capacity_factor = 1.5;
  const StageShape fixed = shape_of(config);
  EXPECT_EQ(framework_layer_bytes(fixed) - framework_layer_bytes(plain), each / 2);
  config.mixture.paged_stash = true;
  config.mixture.stash_factor = 1.25;
  const StageShape stashed = shape_of(config);
  EXPECT_EQ(framework_layer_bytes(stashed) - framework_layer_bytes(plain), each / 4);
  EXPECT_EQ(predicted(config).time.step.value, predicted(deepseek()).time.step.value);
  config.mixture.rank_capacity_factor = 0;
  EXPECT_THAT(why_invalid(config).value_or(""),
              testing::HasSubstr("moe_paged_stash: found true with moe_expert_rank"));
}

/// Products of the shared expert stand between an exchange and its end: as many as before, in less time.
TEST(MegatronSwitches, ASharedExpertRunsAlongsideExchanges) {
  for (const TokenDispatcher dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::flex}) {
    RunConfig config = deepseek();
    config.parallel.ep.token_dispatcher = dispatcher;
    const double apart = predicted(config).time.step.value;
    const StageShape before = shape_of(config);
    config.parallel.ep.shared_expert_overlap = true;
    const StageShape shape = shape_of(config);
    for (const ActionType type : {ActionType::forward, ActionType::backward}) {
      EXPECT_NEAR(flops_of(calls_of(framework_work(shape, type))).value /
                      flops_of(calls_of(framework_work(before, type))).value,
                  1, 1e-12);
      int under_way = 0;
      int hidden = 0;
      for (const OperatorCall& call : calls_of(framework_work(shape, type))) {
        const auto* const collective = call.collective();
        if (collective != nullptr && collective->ticket > 0) ++under_way;
        if (call.as<WaitCall>() != nullptr) --under_way;
        if (std::string(call.label).starts_with("shared fc") && under_way > 0) ++hidden;
      }
      EXPECT_EQ(under_way, 0);
      EXPECT_EQ(hidden, 2);  // an entry stands for all layers of a kind
    }
    EXPECT_LT(predicted(config).time.step.value, apart);
  }
  RunConfig none = mixture("qwen3-30b-a3b", 1, 8, 1, 8);
  const double step = predicted(none).time.step.value;
  none.parallel.ep.shared_expert_overlap = true;
  EXPECT_EQ(predicted(none).time.step.value, step);
  none.machine.software = "torchtitan-2025";
  expect_refused(none, "moe_shared_expert_overlap: found true with torchtitan-2025");
}

/// The last exchange of a layer's backward ends behind its weight gradients.
TEST(MegatronSwitches, DelayedWeightGradientsHideAnExchange) {
  RunConfig config = deepseek();
  config.parallel.ep.overlap_comm = true;
  const double step = predicted(config).time.step.value;
  const auto last_wait = [&] {
    const auto calls = calls_of(framework_work(shape_of(config), ActionType::backward));
    std::string behind;
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].as<WaitCall>() != nullptr) behind = i + 1 < calls.size() ? calls[i + 1].label : "";
    return behind;
  };
  EXPECT_THAT(last_wait(), testing::HasSubstr("fc"));  // a weight gradient
  config.parallel.ep.delay_wgrad_compute = true;
  EXPECT_THAT(last_wait(), testing::Not(testing::HasSubstr("fc2")));
  EXPECT_LE(predicted(config).time.step.value, step);
  config.parallel.ep.overlap_comm = false;
  EXPECT_THAT(why_invalid(config).value_or(""),
              testing::HasSubstr("delay_wgrad_compute: found true without"));
}

TEST(MegatronSwitches, RepeatedModulesHaveTheWeightsOfOne) {
  RunConfig config = deepseek();
  const std::int64_t none = elements_of(shape_of(config)).whole();
  config.model.prediction_modules = 1;
  const std::int64_t one = elements_of(shape_of(config)).whole() - none;
  config.model.prediction_modules = 2;
  EXPECT_EQ(elements_of(shape_of(config)).whole() - none, 2 * one);
  const double flops = executed_flops_per_token(config, 1).value;
  config.prediction.repeated = true;
  EXPECT_EQ(elements_of(shape_of(config)).whole() - none, one);
  EXPECT_EQ(executed_flops_per_token(config, 1).value, flops);
}

/// In FP8, modules in 16 bits have no quantized weights, and no products in FP8.
TEST(MegatronSwitches, ModulesStayIn16Bits) {
  RunConfig config = deepseek();
  config.model.prediction_modules = 1;
  config.numerics.fp8.format = Fp8Format::e4m3;
  config.numerics.fp8.recipe = Fp8Recipe::mxfp8;
  const std::int64_t all = quantized_matrices(shape_of(config));
  const auto in_fp8 = [&] {
    double flops = 0;
    for (const OperatorCall& call : calls_of(framework_work(shape_of(config), ActionType::forward)))
      if (const auto* gemm = call.as<GemmCall>(); gemm != nullptr && gemm->fp8)
        flops += plumbline::flops_of(call).value;
    return flops;
  };
  const double before = in_fp8();
  config.prediction.keep_in_bf16 = true;
  EXPECT_EQ(all - quantized_matrices(shape_of(config)), prediction_module_matrices(shape_of(config)));
  EXPECT_LT(in_fp8(), before);
}

}  // namespace
}  // namespace plumbline::megatron_switches_test
