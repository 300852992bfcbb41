// Training steps of other frameworks against closed forms and against plumbline's own lists.
#include "analysis/work/framework_list.hpp"
#include "analysis/step/stage_shapes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/hardware/profiles.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/predict/context_advice.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

RunConfig gpt(const std::string& software) {
  RunConfig config;
  ModelConfig& m = config.model;
  m.name = "inline";
  m.architecture = "gpt2";
  m.layers = 8, m.hidden = 2048, m.heads = m.kv_heads = 16, m.head_dim = 128, m.ffn = 4 * 2048,
  m.vocab = 51200;
  m.max_positions = 1024;
  m.norm = Norm::layer, m.activation = Activation::gelu, m.positions = Positions::learned;
  m.qkv_bias = m.linear_bias = m.tied_embeddings = true;
  config.batch = {.seq_length = 1024, .micro_batch_size = 4, .global_batch_size = 64};
  config.numerics.precision = DType::bf16;
  config.parallel.tensor = 4;
  config.parallel.pipeline = 2;
  config.parallel.world_size = 16;
  config.machine.hardware = "a100-sxm-80gb";
  config.machine.software = software;
  return config;
}

RunConfig llama(const std::string& software) {
  RunConfig config = gpt(software);
  config.model = *find_preset("llama-3.1-8b");
  return config;
}

Flops flops_of(const std::vector<OperatorCall>& calls) {
  Flops sum;
  for (const OperatorCall& call : calls) sum += plumbline::flops_of(call);
  return sum;
}

Prediction predicted(const RunConfig& config) {
  return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware));
}

// A parallel block has one norm less, or two that read the same; in a partly rotated head only that part is
// touched.
TEST(FrameworkList, KnowsTheSwitchesOfFamilies) {
  RunConfig config = gpt("megatron-core");
  // Elements of one layer and the ends.
  const auto elements = [&](const char* name) {
    std::int64_t sum = 0;
    for (const OperatorCall& call : forward_calls(stage_shapes(config, 1).front())) {
      if (call.name() == name) sum += call.elements();
    }
    return sum;
  };
  const auto bytes = [&] { return framework_layer_bytes(stage_shapes(config, 1).front()); };
  const std::int64_t norms = elements("norm");
  const std::int64_t kept = bytes();
  const std::int64_t stream = config.batch.seq_length * config.batch.micro_batch_size * config.model.hidden;
  config.model.block = Block::parallel;
  EXPECT_EQ(elements("norm"), norms);
  EXPECT_EQ(bytes(), kept - 2 * stream);
  config.model.block = Block::parallel_one_norm;
  EXPECT_EQ(elements("norm"), norms - stream);
  EXPECT_EQ(bytes(), kept - 4 * stream);
  config.model.positions = Positions::rotary;
  const std::int64_t rotated = elements("rope");
  EXPECT_GT(rotated, 0);
  config.model.rotary_dim = config.model.head_dim / 4;
  EXPECT_EQ(elements("rope"), rotated / 4);
  config.model.qk_norm = true;
  EXPECT_EQ(elements("norm"), norms - stream + rotated);
}

// Korthikanti et al. (arXiv:2205.05198) equations 1 to 4 and table 2, per layer and tensor rank.
TEST(FrameworkMemory, ActivationsOfALayerAsPublished) {
  struct Case {
    bool sequence_parallel;
    Recompute recompute;
    double sbh;     // × s·b·h
    double scores;  // × a·s²·b
  };
  constexpr double t = 4;
  for (const Case& c :
       {Case{false, Recompute::none, 10 + 24 / t, 5 / t}, Case{true, Recompute::none, 34 / t, 5 / t},
        Case{false, Recompute::selective, 10 + 24 / t, 0}, Case{true, Recompute::selective, 34 / t, 0},
        Case{true, Recompute::full, 2 / t, 0}, Case{false, Recompute::full, 2, 0}}) {
    RunConfig config = gpt("megatron-2022");
    config.parallel.sequence_parallel = c.sequence_parallel;
    config.recompute.granularity = c.recompute;
    const StageShape shape = stage_shapes(config, 2).front();
    const double s = 1024, b = 4, h = 2048, a = 16;
    EXPECT_EQ(static_cast<double>(framework_layer_bytes(shape)),
              c.sbh * s * b * h + c.scores * a * s * s * b);
  }
}

// Software with fused attention may be configured without it.
TEST(FrameworkMemory, ScoresAreThereWhereAttentionIsUnfused) {
  RunConfig config = gpt("megatron-core-2026");
  const StageShape fused = stage_shapes(config, 2).front();
  config.numerics.attention_backend = AttentionBackend::unfused;
  const StageShape shape = stage_shapes(config, 2).front();
  EXPECT_FALSE(fused.attention.unfused);
  const std::int64_t scores = shape.stream.tokens * shape.stream.seq * shape.attention.heads;
  EXPECT_EQ(framework_layer_bytes(shape),
            framework_layer_bytes(fused) - 4 * shape.stream.tokens * shape.attention.heads + 2 * scores);
}

TEST(FrameworkMemory, ShardsStatesAsZeroDoes) {
  RunConfig config = gpt("megatron-2022");
  config.parallel.world_size = 4 * 2 * 8;  // 8 replicas
  double whole = 0;
  for (const auto& [stage, expected] :
       {std::pair{0, 18.0}, {1, 6 + 12.0 / 8}, {2, 2 + 16.0 / 8}, {3, 18.0 / 8}}) {
    config.parallel.zero_stage = stage;
    const MemoryBreakdown held = predicted(config).memory.ranks.front().held;
    const double states = static_cast<double>(
        (held[Category::parameters] + held[Category::gradients] + held[Category::optimizer]).value);
    if (stage == 0) whole = states;
    EXPECT_NEAR(states / whole, expected / 18, 1e-3) << "ZeRO " << stage;
  }
}

// The same products, whoever launches them: fused attention counts its causal half, materialised scores count
// whole.
TEST(FrameworkList, ComputesWhatPlumblineComputes) {
  for (const char* software : {"megatron-core-2024", "torchtitan", "torchtitan-compile"}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      RunConfig theirs = llama(software);
      theirs.parallel.world_size = 8;  // one replica
      theirs.recompute.granularity = recompute;
      RunConfig ours = theirs;
      ours.machine.software = "plumbline";
      const StageShape a = stage_shapes(theirs, 2).back();
      const StageShape b = stage_shapes(ours, 2).back();
      const double forward = flops_of(forward_calls(a)).value / flops_of(forward_calls(b)).value;
      const double backward = flops_of(backward_calls(a)).value / flops_of(backward_calls(b)).value;
      EXPECT_NEAR(forward, 1, 1e-12) << software;
      // plumbline does not repeat the last product of a recomputed part.
      const bool again = recompute == Recompute::full;
      EXPECT_GE(backward, again ? 1.001 : 1 - 1e-12) << software;
      EXPECT_LE(backward, again ? 1.1 : 1 + 1e-12) << software;
    }
  }
}

// tp_comm_overlap of Megatron-Core: the same products and bytes in pieces, most of the collectives hidden.
TEST(FrameworkList, OverlapHidesTensorCollectives) {
  RunConfig config = llama("megatron-core-2024");
  config.machine.hardware = "h100-sxm-80gb";
  config.batch.seq_length = 8192;
  config.batch.micro_batch_size = 1;
  config.parallel.sequence_parallel = true;
  const auto moved = [](const std::vector<OperatorCall>& calls) {
    double bytes = 0;
    for (const OperatorCall& call : calls) {
      const double whole = static_cast<double>(call.bytes().value * call.count);
      if (call.is(CallKind::ring_shift))
        bytes += whole;  // each rank's rows go once around except for one step
      if (call.is(CallKind::all_gather) || call.is(CallKind::reduce_scatter))
        bytes += whole * (call.collective()->ranks - 1) / call.collective()->ranks;
    }
    return bytes;
  };
  const StageShape plain = stage_shapes(config, 2).front();
  const Prediction without = predicted(config);
  config.parallel.tp_comm_overlap = true;
  const StageShape overlapped = stage_shapes(config, 2).front();
  const Prediction with = predicted(config);
  for (const ActionType type : {ActionType::forward, ActionType::backward}) {
    const std::vector<OperatorCall> before = calls_of(work_of(plain, type));
    const std::vector<OperatorCall> after = calls_of(work_of(overlapped, type));
    EXPECT_NEAR(flops_of(after).value / flops_of(before).value, 1, 1e-12);
    // The backward gathers inputs once more, which was taken to be free before.
    const double gathers = type == ActionType::backward ? 1.5 : 1;
    EXPECT_NEAR(moved(after) / moved(before), gathers, 0.05);
  }
  EXPECT_LT(with.time.exposed_tensor.value, 0.35 * without.time.exposed_tensor.value);
  EXPECT_LT(with.time.step.value, 0.95 * without.time.step.value);
  // Hidden time is still counted: the step without collectives is even shorter.
  EXPECT_GT(with.time.step.value, without.time.step.value - without.time.exposed_tensor.value);
}

TEST(FrameworkList, SlowLaunchesAreWaitedFor) {
  const RunConfig config = gpt("megatron-2022");
  const Schedule schedule = schedule_for(config);
  const HardwareProfile& hardware = *find_hardware_preset("a100-sxm-80gb");
  Software traits = software_of(config);
  traits.host_operator_s = 0;
  const double device = predict(config, schedule, hardware, traits).time.step.value;
  traits.host_operator_s = 1e-3;
  const double host = predict(config, schedule, hardware, traits).time.step.value;
  traits.host_operator_s = 2e-3;
  EXPECT_NEAR(predict(config, schedule, hardware, traits).time.step.value, 2 * host, 0.05 * host);
  EXPECT_GT(host, 3 * device);
  // A layer's operators and its collectives' wrappers, 8 of a micro-batch's passes, 4 layers on a stage.
  EXPECT_GT(host, 1e-3 * 8 * 4 * (28 + 45));
}

TEST(FrameworkList, GraphsTakeLaunchesOffTheHost) {
  RunConfig config = gpt("megatron-core-2025");
  config.model.hidden = 256, config.model.heads = config.model.kv_heads = 4, config.model.head_dim = 64;
  config.model.ffn = config.model.vocab = 1024;
  config.model.layers = 32;  // embedding and loss are launched with any capture
  config.batch.micro_batch_size = 1;
  const double launched = predicted(config).time.step.value;
  for (const CudaGraphImpl impl : {CudaGraphImpl::local, CudaGraphImpl::transformer_engine}) {
    config.machine.cuda_graph_impl = impl;
    EXPECT_LT(predicted(config).time.step.value, 0.6 * launched);
  }
  const double layers = predicted(config).time.step.value;
  config.machine.cuda_graph_modules = "mlp";
  const double half = predicted(config).time.step.value;
  EXPECT_GT(half, layers);
  EXPECT_LT(half, launched);
  config.machine.cuda_graph_modules = "all";
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
  EXPECT_LT(predicted(config).time.step.value, layers) << "nor are the ends launched";
  config.machine.cuda_graph_impl = CudaGraphImpl::transformer_engine;
  config.machine.software = "torchtitan";
  EXPECT_THAT([&] { predicted(config); }, testing::ThrowsMessage<InputError>(testing::HasSubstr(
                                              "cuda_graph_impl: found transformer_engine with torchtitan")));
  config.machine.software = "plumbline";
  EXPECT_THAT(why_invalid(config).value_or(""), testing::HasSubstr("expected none"));
}

// States are sharded within an instance, gradients are summed between instances: MaxText's and Paxml's
// replicas of FSDP groups, Megatron-LM's distributed optimizer.
TEST(FrameworkList, InstancesOfTheOptimizerHoldAllStatesEach) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.world_size = 64;  // 8 copies
  config.parallel.zero_stage = 1;
  const auto optimizer = [](const Prediction& p) { return p.memory.ranks.front().held[Category::optimizer]; };
  const Prediction one = predicted(config);
  config.parallel.num_distributed_optimizer_instances = 2;
  const Prediction two = predicted(config);
  EXPECT_NEAR(static_cast<double>(optimizer(two).value), 2.0 * static_cast<double>(optimizer(one).value), 16);
  EXPECT_EQ(two.memory.ranks.front().held[Category::gradients],
            one.memory.ranks.front().held[Category::gradients]);

  // Every layer is gathered within an instance, and its reduced gradient summed between them.
  config = llama("maxtext-save-qkv-proj");
  config.parallel.tensor = config.parallel.pipeline = 1;
  config.parallel.world_size = 64;
  config.parallel.zero_stage = 3;
  config.batch.micro_batch_size = 1;
  config.parallel.num_distributed_optimizer_instances = 8;
  const StageShape shape = stage_shapes(config, 1).front();
  std::int64_t gathered = 0;
  std::int64_t scattered = 0;
  std::int64_t summed = 0;
  for (const OperatorCall& call : calls_of(framework_work(shape, ActionType::backward))) {
    if (!call.among(Group::data)) continue;
    EXPECT_EQ(call.collective()->ranks, 8) << call.label;
    if (call.is(CallKind::all_gather)) gathered += call.elements() * call.count;
    if (call.is(CallKind::reduce_scatter)) scattered += call.elements() * call.count;
    if (!call.is(CallKind::all_reduce)) continue;
    EXPECT_EQ(call.collective()->stride, 8);
    summed += call.elements() * call.count;
  }
  EXPECT_GT(gathered, 6'000'000'000);
  EXPECT_GT(scattered, 6'000'000'000);
  EXPECT_NEAR(static_cast<double>(summed), static_cast<double>(scattered) / 8, 100);
}

// Half the bytes in the buffer, the collectives and the products that add to it.
TEST(FrameworkList, GradientsMayBeOf16Bit) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.world_size = 64;
  config.batch.global_batch_size = 64;
  const Prediction fp32 = predicted(config);
  config.numerics.grad_dtype = GradDType::same;
  const Prediction same = predicted(config);
  const auto gradients = [](const Prediction& p) { return p.memory.ranks.front().held[Category::gradients]; };
  EXPECT_EQ(2 * gradients(same).value, gradients(fp32).value);
  EXPECT_LT(same.time.step.value, fp32.time.step.value);
}

// On the first pipeline rank: the others reduce a chunk at once.
TEST(FrameworkList, OverlappedReductionHidesBehindTheBackward) {
  RunConfig config = llama("megatron-core-2024");
  config.parallel.pipeline = 1;
  config.parallel.world_size = 64;
  config.batch.global_batch_size = 64;
  const Schedule schedule = schedule_for(config);
  const HardwareProfile& hardware = *find_hardware_preset("h100-sxm-80gb");
  Software traits = software_of(config);
  for (const int zero : {0, 1}) {
    config.parallel.zero_stage = zero;
    traits.overlapped_reduction = true;
    const StepTime hidden = predict(config, schedule, hardware, traits).time;
    traits.overlapped_reduction = false;
    const StepTime shown = predict(config, schedule, hardware, traits).time;
    EXPECT_LT(hidden.exposed_data.value, 0.75 * shown.exposed_data.value) << "ZeRO " << zero;
    EXPECT_LT(hidden.step.value, shown.step.value);
  }
}

// Transformer Engine's recipes: casts of a layer's forward, kept tensors, and memory of a rank.
TEST(FrameworkFp8, RecipesPriceTheirCastsAndProducts) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.tensor = config.parallel.pipeline = 1;
  const StageShape plain = stage_shapes(config, 1).front();
  config.numerics.fp8.format = Fp8Format::hybrid;
  struct Case {
    Fp8Recipe recipe;
    double made_here, others;  // bytes per element of norms' and of other operators' outputs
  };
  for (const Case& c : {Case{Fp8Recipe::delayed, 0, 4}, Case{Fp8Recipe::tensorwise, 6, 6},
                        Case{Fp8Recipe::blockwise, 4.0625, 4.0625}, Case{Fp8Recipe::mxfp8, 4.0625, 4.0625}}) {
    config.numerics.fp8.recipe = c.recipe;
    const StageShape shape = stage_shapes(config, 1).front();
    EXPECT_FALSE(shape.numerics.fp8);  // plumbline's own lists and tensors
    UnitWork work;
    framework_layer(shape, LayerPass::forward, 0, false, work);
    double cast = 0;
    int products = 0;
    for (const OperatorCall& call : work.calls) {
      if (call.name() == "cast to fp8")
        cast += static_cast<double>(call.elements()) * call.as<StreamCall>()->bytes_per_element;
      const auto* gemm = call.as<GemmCall>();
      if (gemm == nullptr) continue;
      ++products;
      EXPECT_TRUE(gemm->fp8);
      EXPECT_EQ(gemm->block_scaled, c.recipe == Fp8Recipe::mxfp8);
    }
    EXPECT_EQ(products, 4);
    const double tokens = 4 * 1024;
    EXPECT_NEAR(cast, tokens * (2 * 4096 * c.made_here + (4096 + 14336) * c.others), 1) << c.others;
    // Results of the norms and of the activation in one byte, attention's in one besides its own two.
    EXPECT_EQ(framework_layer_bytes(plain) - framework_layer_bytes(shape),
              4 * 1024 * (2 * 4096 + 14336 - 4096));
  }
  const auto held = [&] {
    const StageShape shape = stage_shapes(config, 1).front();
    return framework_held_bytes({&shape, 1}).total().value;
  };
  const std::int64_t with_copies = held();
  config.numerics.fp8.param_gather = true;
  // 32 layers of 4096 x (4096 + 2 x 1024) + 4096 x 4096 + 3 x 4096 x 14336 weights, two bytes each.
  EXPECT_EQ(with_copies - held(), std::int64_t{32} * 2 * 218103808);
}

// Columns of an operand besides its rows only where products need them.
TEST(FrameworkFp8, BlackwellNeedsOneFormOfATensorWithOneScale) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.tensor = config.parallel.pipeline = 1;
  config.numerics.fp8.format = Fp8Format::hybrid;
  struct Case {
    const char* hardware;
    Fp8Recipe recipe;
    int forms;
  };
  for (const Case& c :
       {Case{"h100-sxm-80gb", Fp8Recipe::delayed, 2}, Case{"b200-sxm-180gb", Fp8Recipe::delayed, 1},
        Case{"gb300-nvl72", Fp8Recipe::tensorwise, 1}, Case{"gb300-nvl72", Fp8Recipe::mxfp8, 2}}) {
    config.machine.hardware = c.hardware;
    config.numerics.fp8.recipe = c.recipe;
    config.numerics.fp8.param_gather = true;
    const auto held = [&] {
      const StageShape shape = stage_shapes(config, 1).front();
      return framework_held_bytes({&shape, 1})[Category::parameters].value;
    };
    const std::int64_t in_fp8 = held();
    config.numerics.fp8.param_gather = false;
    EXPECT_EQ(held() - in_fp8, std::int64_t{32} * 2 * 218103808) << c.hardware;  // those in 16 bit
    EXPECT_EQ(in_fp8,
              2 * (std::int64_t{2} * 128256 * 4096 + 65 * 4096) + std::int64_t{32} * c.forms * 218103808)
        << c.hardware;
    UnitWork work;
    framework_layer(stage_shapes(config, 1).front(), LayerPass::forward, 0, false, work);
    for (const OperatorCall& call : work.calls) {
      if (call.name() != "cast to fp8" || c.recipe == Fp8Recipe::mxfp8) continue;
      EXPECT_EQ(call.as<StreamCall>()->bytes_per_element,
                2 + c.forms + (c.recipe == Fp8Recipe::tensorwise ? 2 : 0));
    }
  }
}

// NVFP4: half a byte per element and a byte of scale for 16, in both forms; twice the rate or more.
TEST(FrameworkFp4, OperandsTakeNineSixteenthsOfAByte) {
  RunConfig config = llama("megatron-core-2026");
  config.machine.hardware = "b200-sxm-180gb";
  config.parallel.tensor = config.parallel.pipeline = 1;
  config.parallel.world_size = 16;
  const StageShape plain = stage_shapes(config, 1).front();
  const auto held = [&] {
    const StageShape shape = stage_shapes(config, 1).front();
    return framework_held_bytes({&shape, 1}).total().value;
  };
  const std::int64_t in_16_bit = held();
  const double step = predicted(config).time.step.value;
  config.numerics.fp4_format = Fp4Format::e2m1;
  EXPECT_EQ(16 * (held() - in_16_bit), std::int64_t{32} * 18 * 218103808);
  const StageShape shape = stage_shapes(config, 1).front();
  const std::int64_t operands = 2 * 4096 + 14336;
  EXPECT_EQ(framework_layer_bytes(plain) - framework_layer_bytes(shape),
            4 * 1024 * (2 * operands - (operands + 4096) * 9 / 16));
  int casts = 0;
  UnitWork work;
  framework_layer(shape, LayerPass::forward, 0, false, work);
  for (const OperatorCall& call : work.calls) {
    if (const auto* gemm = call.as<GemmCall>()) {
      EXPECT_TRUE(gemm->fp4 && !gemm->fp8) << label_of(call);
    } else if (call.name().starts_with("cast")) {
      ++casts;
      EXPECT_EQ(call.name(), "cast to fp4");
      EXPECT_EQ(call.as<StreamCall>()->bytes_per_element, 2 + 2 + 1.125);
    }
  }
  EXPECT_GT(casts, 0);
  EXPECT_LT(predicted(config).time.step.value, step);
  config.numerics.fp8.format = Fp8Format::hybrid;
  EXPECT_THAT(why_invalid(config).value_or(""), testing::HasSubstr("fp4_format: found e2m1 with fp8_format"));
  config.numerics.fp8.format = Fp8Format::none;
  for (const auto& [hardware, software, message] :
       {std::tuple{"h100-sxm-80gb", "megatron-core-2026", "found e2m1 on h100-sxm-80gb"},
        {"b200-sxm-180gb", "megatron-core-2024", "found e2m1 with megatron-core-2024"}}) {
    config.machine.hardware = hardware;
    config.machine.software = software;
    EXPECT_THAT([&] { predicted(config); }, testing::ThrowsMessage<InputError>(testing::HasSubstr(message)));
  }
}

TEST(FrameworkFp8, WhatASoftwareOrDeviceHasNotIsRefused) {
  RunConfig config = llama("megatron-core-2024");
  config.machine.hardware = "h100-sxm-80gb";
  config.numerics.fp8.format = Fp8Format::hybrid;
  EXPECT_GT(predicted(config).time.step.value, 0);  // delayed
  config.numerics.fp8.recipe = Fp8Recipe::mxfp8;
  EXPECT_THAT([&] { predicted(config); },
              testing::ThrowsMessage<InputError>(
                  testing::HasSubstr("fp8_recipe: found mxfp8 with megatron-core-2024, expected delayed")));
  config.machine.software = "megatron-core-2025";
  EXPECT_THAT([&] { predicted(config); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("found mxfp8 on h100-sxm-80gb")));
  config.machine.hardware = "b200-sxm-180gb";
  EXPECT_GT(predicted(config).time.step.value, 0);
}

TEST(FrameworkList, ParametersGatheredAlongsideTheForwardShowOneLayer) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.zero_stage = 1;
  Software traits = software_of(config);
  const Schedule schedule = schedule_for(config);
  const auto gather = [&] {
    const std::vector<StageShape> shapes = stage_shapes(config, schedule, traits);
    double share = 0;
    for (const OperatorCall& call : framework_update_calls(stages_on_rank(config, schedule, shapes, 0))) {
      if (call.is(CallKind::all_gather)) share += call.share;
    }
    return share;
  };
  EXPECT_EQ(gather(), 1);
  traits.overlapped_gather = true;
  EXPECT_DOUBLE_EQ(gather(), 1.0 / 16);  // 16 layers on each of 2 stages
}

TEST(FrameworkList, RecomputationByNameRepeatsWhatIsNotKept) {
  RunConfig config = llama("maxtext-save-dot-except-mlp");
  config.parallel.tensor = config.parallel.pipeline = 1;
  config.recompute.granularity = Recompute::selective;
  const auto repeated = [&] {
    const StageShape shape = stage_shapes(config, 1).front();
    UnitWork work;
    framework_recomputation(shape, 0, work);
    return flops_of(work.calls).value;
  };
  const double tokens = 4 * 1024;
  const double fc1 = 2 * tokens * 4096 * 2 * 14336;
  const double mlp = repeated();
  EXPECT_GT(mlp, fc1);  // and attention's forward
  EXPECT_LT(mlp, fc1 + 4 * tokens * 1024 * 4096);
  config.machine.software = "maxtext-save-qkv-proj";
  EXPECT_NEAR(repeated() - mlp, 2 * tokens * 4096 * 4096, 1);
}

// Compiled losses read and write 16-bit logits: no fp32 copies of them are held.
TEST(FrameworkMemory, CompiledLossesHoldLogitsOnce) {
  RunConfig config = llama("torchtitan-compile");
  config.parallel.tensor = config.parallel.pipeline = 1;
  const double copies = static_cast<double>(predicted(config).memory.peak.value);
  config.machine.software = "torchtitan-2025";
  const double logits = 4 * 1024 * 128256.0;
  EXPECT_GT(copies - static_cast<double>(predicted(config).memory.peak.value), 6 * logits);
}

TEST(FrameworkList, WhatCannotBeIsRefusedInOneLine) {
  EXPECT_THAT([] { predicted(gpt("nosuch")); },
              testing::ThrowsMessage<InputError>(
                  testing::AllOf(testing::HasSubstr("software: found nosuch, expected one of deepspeed, "),
                                 testing::Not(testing::HasSubstr("\n")))));
  const RunConfig theirs = gpt("megatron-2022");
  EXPECT_THAT(*why_unsupported(theirs), testing::HasSubstr("software: found megatron-2022"));
  EXPECT_EQ(why_unpredictable(theirs), std::nullopt);
}

/// Bytes of the context group's collectives of a kind.
double context_bytes(const std::vector<OperatorCall>& calls, CallKind kind) {
  double bytes = 0;
  for (const OperatorCall& call : calls) {
    if ((call.among(Group::context) || call.among(Group::context_heads)) && call.is(kind))
      bytes += static_cast<double>((call.bytes() * call.count).value);
  }
  return bytes;
}

// Bytes that a rank sends per layer, with L tokens of a sequence on the rank and k key/value heads of size d:
// 4·L·k·d·(CP-1) forward by ring and gather, twice that backward; exchanged 4·L·(a/TP +
// k)·d·(CP-1)/CP both ways.
TEST(FrameworkContext, EveryRankHasAnEqualPartOfTheWorkAndSendsWhatFormulasSay) {
  RunConfig config = llama("megatron-core");
  config.model = *find_preset("llama-3.1-405b");
  config.parallel.tensor = 8;
  config.parallel.pipeline = 1;
  config.parallel.world_size = 8;
  config.batch = {.seq_length = 131072, .micro_batch_size = 1, .global_batch_size = 8};
  const StageShape whole = stage_shapes(config, 1).front();
  const double layers = static_cast<double>(config.model.layers);
  const double forward = flops_of(forward_calls(whole)).value;
  const double backward = flops_of(backward_calls(whole)).value;
  for (const int ranks : {2, 4, 16}) {
    config.parallel.context = ranks;
    config.parallel.world_size = 8 * ranks;
    const double length = 131072.0 / ranks;
    const double kv = 4 * length * 1 * 128 * (ranks - 1);
    for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather}) {
      config.parallel.cp_comm_type = type;
      const StageShape shape = stage_shapes(config, 1).front();
      EXPECT_EQ(shape.sharding.data, ranks);
      const auto there = forward_calls(shape);
      const auto back = backward_calls(shape);
      EXPECT_NEAR(ranks * flops_of(there).value / forward, 1, 1e-9) << ranks;
      EXPECT_NEAR(ranks * flops_of(back).value / backward, 1, 1e-9) << ranks;
      if (type == CpCommType::p2p) {
        EXPECT_EQ(context_bytes(there, CallKind::ring_shift), layers * kv) << ranks;
        EXPECT_EQ(context_bytes(back, CallKind::ring_shift), 2 * layers * kv) << ranks;
      } else {
        const double share = (ranks - 1.0) / ranks;
        EXPECT_DOUBLE_EQ(context_bytes(there, CallKind::all_gather) * share, layers * kv) << ranks;
        EXPECT_DOUBLE_EQ(context_bytes(back, CallKind::all_gather) * share, layers * kv) << ranks;
        EXPECT_DOUBLE_EQ(context_bytes(back, CallKind::reduce_scatter) * share, layers * kv) << ranks;
      }
    }
    EXPECT_TRUE(ranks < 16 || std::abs(kv / 62.9e6 - 1) < 1e-3);  // arithmetic by hand
  }
  config.parallel.cp_comm_type = CpCommType::a2a;
  EXPECT_TRUE(why_invalid(config));  // one key/value head per tensor rank
  config.parallel.tensor = 1;
  config.parallel.context = 4;
  config.parallel.world_size = 4;
  const StageShape exchanged = stage_shapes(config, 1).front();
  const double length = 131072.0 / 4;
  for (const auto& calls : {forward_calls(exchanged), backward_calls(exchanged)}) {
    EXPECT_DOUBLE_EQ(context_bytes(calls, CallKind::all_to_all) * 3 / 4,
                     layers * 4 * length * (128 + 8) * 128 * 3 / 4);
  }
  EXPECT_NEAR(4 * flops_of(forward_calls(exchanged)).value / (8 * forward), 1,
              1e-3);  // the padded vocabulary differs
  config.parallel.cp_comm_type = CpCommType::a2a_p2p;
  config.parallel.hierarchical_context = {2, 2};
  const StageShape both = stage_shapes(config, 1).front();
  const double kv = 4 * length * 8 * 128;  // one hop
  for (const bool back : {false, true}) {
    const auto calls = back ? backward_calls(both) : forward_calls(both);
    EXPECT_DOUBLE_EQ(context_bytes(calls, CallKind::all_to_all), layers * 4 * length * (128 + 8) * 128);
    EXPECT_EQ(context_bytes(calls, CallKind::ring_shift), (back ? 2 : 1) * layers * kv);
  }
  EXPECT_NEAR(4 * flops_of(forward_calls(both)).value / (8 * forward), 1, 1e-3);
}

// Between nodes a gather shows, while a ring travels behind attention.
TEST(FrameworkContext, ARingHidesWhatItsStepsCover) {
  RunConfig config = llama("megatron-core");
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.tensor = 8;
  config.parallel.pipeline = 1;
  config.parallel.context = 8;
  config.parallel.world_size = 64;
  config.parallel.sequence_parallel = true;
  config.batch = {.seq_length = 131072, .micro_batch_size = 1, .global_batch_size = 1};
  const StepTime ring = predicted(config).time;
  config.parallel.cp_comm_type = CpCommType::all_gather;
  const StepTime gathered = predicted(config).time;
  EXPECT_LT(ring.step.value, gathered.step.value);
  EXPECT_LT(ring.exposed_tensor.value, gathered.exposed_tensor.value);
  const std::string report = context_report(config, schedule_for(config), predicted(config),
                                            *find_hardware_preset(config.machine.hardware));
  EXPECT_THAT(report, testing::HasSubstr(fmt::format("\n  p2p         {:.4g}", ring.step.value)));
  EXPECT_THAT(report, testing::ContainsRegex("all_gather .*this one"));
  EXPECT_THAT(report, testing::HasSubstr("a2a         impossible: cp_comm_type: found a2a with"));
  // A repeated step is predicted with all of its repetitions, for every cp_comm_type.
  config.batch.global_batch_size = 64;
  const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
  const RepeatedSchedule step = step_for(config);
  ASSERT_TRUE(step.repeats());
  const Prediction of_step = predict(config, step, hardware);
  const StepTime whole = [&] {
    RunConfig other = config;
    other.parallel.cp_comm_type = CpCommType::p2p;
    return predicted(other).time;
  }();
  EXPECT_THAT(context_report(config, step, of_step, hardware),
              testing::HasSubstr(fmt::format("\n  p2p         {:.4g}", whole.step.value)));
}

}  // namespace
}  // namespace plumbline
