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

/// The last stage keeps a 16-bit gradient of the logits and the output layer's input of every micro-batch
/// whose weight gradient waits, and makes them while the other stages do their last backwards.
TEST(MegatronSwitches, DeferredOutputGradientsWaitForThePipelinesEnd) {
  RunConfig config = llama("megatron-core", 2, 4);
  config.parallel.sequence_parallel = true;
  config.parallel.pp.layer_distribution = "9,9,9,5";  // the output layer's stage is the slowest
  const Prediction plain = predicted(config);
  const auto peak_of_last = [](const Prediction& of) { return of.memory.ranks.back().peak.total().value; };
  config.parallel.pp.defer_embedding_wgrad_compute = true;
  ASSERT_EQ(why_invalid(config), std::nullopt);
  const Prediction all = predicted(config);
  EXPECT_LT(all.time.step.value, plain.time.step.value);
  const StageShape last = stage_shapes(config, 4).back();
  const std::int64_t each = 2 * last.stream.tokens * last.ends.vocab + 2 * last.stream.rows * 4096;
  // Micro-batches before the last one, whose own gradient is there when the loss's is.
  const std::int64_t before = config.microbatches() - 1;
  EXPECT_NEAR(static_cast<double>(peak_of_last(all) - peak_of_last(plain)),
              static_cast<double>(before * each), static_cast<double>(each));
  config.parallel.pp.wgrad_deferral_limit = 2;
  const Prediction some = predicted(config);
  EXPECT_EQ(peak_of_last(some) - peak_of_last(plain), 2 * each);
  EXPECT_LT(all.time.step.value, some.time.step.value);
  EXPECT_LT(some.time.step.value, plain.time.step.value);
  // As many operations in two parts.
  const auto work = [&](ActionType type) { return flops_of(calls_of(framework_work(last, type))).value; };
  EXPECT_NEAR(
      (work(ActionType::backward_input) + work(ActionType::backward_weight)) / work(ActionType::backward), 1,
      1e-12);
  EXPECT_NEAR(work(ActionType::backward_weight), 2.0 * 4096 * last.stream.tokens * last.ends.vocab, 1);
  config.machine.software = "torchtitan";
  config.parallel.pp.layer_distribution = "even";
  expect_refused(config, "defer_embedding_wgrad_compute: found true with torchtitan");
}

/// The first chunk's gather starts before the others' update: the step is shorter, by that update at most.
TEST(MegatronSwitches, TheFirstChunksGatherHidesBehindTheOthersUpdate) {
  RunConfig config = llama("megatron-core", 1, 4);
  config.parallel.world_size = 64;
  config.parallel.dp.zero_stage = 1;
  config.parallel.dp.overlap_param_gather = true;
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 256};
  config.parallel.pp.schedule = "interleaved";
  config.parallel.pp.virtual_chunks = 4;
  const double step = predicted(config).time.step.value;
  const MemoryPrediction memory = predicted(config).memory;
  config.parallel.dp.gather_with_update = true;
  ASSERT_EQ(why_invalid(config), std::nullopt);
  const Prediction early = predicted(config);
  EXPECT_LT(early.time.step.value, step);
  EXPECT_GT(early.time.step.value, step - early.time.optimizer.value);
  EXPECT_EQ(early.memory.peak.value, memory.peak.value);
  config.parallel.pp.virtual_chunks = 2;  // less is updated behind the gather
  RunConfig plain = config;
  plain.parallel.dp.gather_with_update = false;
  EXPECT_LE(predicted(config).time.step.value, predicted(plain).time.step.value);
  config.machine.software = "torchtitan";
  expect_refused(config, "overlap_param_gather_with_optimizer_step: found true with torchtitan");
}

/// Tensors of all layers of a stage but its last are on the host from the forward to the backward.
TEST(MegatronSwitches, InputsOfNamedModulesAreOnTheHost) {
  RunConfig config = llama("megatron-core", 1, 1);
  config.parallel.world_size = 1;
  config.batch = {.seq_length = 8192, .micro_batch_size = 1, .global_batch_size = 4};
  config.machine.hardware = "gb200-nvl72";
  const Prediction plain = predicted(config);
  const std::int64_t rows = 8192;
  struct Case {
    OffloadModules modules;
    std::int64_t each;  // bytes of a layer in bf16: 32 heads and 8 pairs of keys and values of 128
  };
  for (const Case& c : {Case{{.attn_norm = true}, 2 * rows * 4096},
                        {{.mlp_norm = true}, 2 * rows * 4096},
                        {{.qkv_linear = true}, 2 * rows * 4096},
                        {{.core_attn = true}, 2 * rows * (4096 + 2 * 1024)},
                        {{.core_attn = true, .attn_proj = true}, 2 * rows * (2 * 4096 + 2 * 1024)}}) {
    config.offload.modules = c.modules;
    ASSERT_EQ(why_invalid(config), std::nullopt);
    const Prediction offloaded = predicted(config);
    EXPECT_EQ(plain.memory.peak.value - offloaded.memory.peak.value, 31 * c.each);
    EXPECT_EQ(offloaded.memory.ranks.front().host.value, 31 * c.each);
    EXPECT_GE(offloaded.time.step.value, plain.time.step.value);
  }
  config.batch.seq_length = 128;  // keys and values of fewer elements than are offloaded
  config.offload.modules = {.core_attn = true};
  EXPECT_EQ(predicted(config).memory.ranks.front().host.value, 0);
  RunConfig experts = deepseek();
  const StageShape kept = shape_of(experts);
  experts.offload.modules = {.expert_fc1 = true};
  EXPECT_EQ(framework_offloaded_bytes(shape_of(experts)), 2 * kept.expert.rows * 7168);
  experts.offload.modules = {.fused_group_mlp = true};
  EXPECT_EQ(framework_offloaded_bytes(shape_of(experts)), 2 * kept.expert.rows * (7168 + 3 * 2048));
  const auto refused = [](RunConfig run, const char* reason) {
    EXPECT_THAT(why_invalid(run).value_or(""), testing::HasSubstr(reason));
  };
  experts.offload.modules.expert_fc1 = true;
  refused(experts, "offload_modules: found expert_fc1,fused_group_mlp twice of experts");
  config.offload.modules = {.attn_proj = true};
  refused(config, "offload_modules: found attn_proj without core_attn");
  config.offload.modules = {.moe_act = true};
  refused(config, "offload_modules: found moe_act with a model that has no experts");
  config.offload.modules = {.core_attn = true};
  config.machine.software = "torchtitan";
  expect_refused(config, "offload_modules: found core_attn with torchtitan");
}

/// Buffers of two layers are there at the loss as well; a step takes as long.
TEST(MegatronSwitches, DoubleBuffersOfFsdpAreHeldAtAllTimes) {
  RunConfig config = llama("megatron-bridge-fsdp", 1, 1);
  config.parallel.dp.zero_stage = 3;
  const Prediction plain = predicted(config);
  const MemoryBreakdown held = held_bytes(config);
  config.parallel.dp.fsdp_double_buffer = true;
  ASSERT_EQ(why_invalid(config), std::nullopt);
  // Weights and gradients of 16 bits of two layers, norms aside.
  const std::int64_t layer = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336);
  const std::int64_t buffers = held_bytes(config)[Category::communication].value;
  EXPECT_NEAR(static_cast<double>(buffers) / static_cast<double>(2 * (2 + 2) * layer), 1, 0.001);
  EXPECT_EQ(held_bytes(config).total().value - held.total().value, buffers);
  const Prediction buffered = predicted(config);
  EXPECT_GE(buffered.memory.peak.value, plain.memory.peak.value);
  EXPECT_LE(buffered.memory.peak.value, plain.memory.peak.value + buffers);
  EXPECT_EQ(buffered.time.step.value, plain.time.step.value);
  config.machine.software = "megatron-bridge";
  config.parallel.dp.zero_stage = 1;
  expect_refused(config, "fsdp_double_buffer: found true with megatron-bridge, which has none");
}

/// With optim_grads weights stay whole, with optim_grads_params they do not.
TEST(MegatronSwitches, FsdpMayKeepWeightsWhole) {
  RunConfig config = llama("megatron-bridge-fsdp", 1, 1);
  config.parallel.dp.zero_stage = 3;
  const MemoryBreakdown sharded = held_bytes(config);
  config.parallel.dp.zero_stage = 2;
  const MemoryBreakdown whole = held_bytes(config);
  EXPECT_EQ(whole[Category::gradients].value, sharded[Category::gradients].value);
  EXPECT_EQ(whole[Category::optimizer].value, sharded[Category::optimizer].value);
  EXPECT_EQ(whole[Category::parameters].value, 16 * sharded[Category::parameters].value);
  EXPECT_GT(predicted(config).memory.peak.value, 0);
}

}  // namespace
}  // namespace plumbline::megatron_switches_test
