// Training steps of other frameworks against closed forms and against plumbline's own lists.
#include "tests/analysis/work/framework_runs.hpp"
namespace plumbline::framework_list_test {
namespace {

using namespace frameworks;

// A parallel block has one norm less, or two that read the same; in a partly rotated head only that part is
// touched.
TEST(FrameworkList, KnowsTheSwitchesOfFamilies) {
  RunConfig config = gpt("megatron-core", 4, 1);
  // Elements of one layer and the ends.
  const auto elements = [&](const char* name) {
    std::int64_t sum = 0;
    for (const OperatorCall& call : forward_calls(first_shape(config))) {
      if (call.name() == name) sum += call.elements();
    }
    return sum;
  };
  const auto bytes = [&] { return framework_layer_bytes(first_shape(config)); };
  const std::int64_t norms = elements("norm");
  const std::int64_t kept = bytes();
  const std::int64_t stream = config.batch.seq_length * config.batch.micro_batch_size * config.model.hidden;
  config.model.block = Block::parallel;
  EXPECT_EQ(elements("norm"), norms);
  EXPECT_EQ(bytes(), kept - 2 * stream);
  config.model.block = Block::parallel_one_norm;
  EXPECT_EQ(elements("norm"), norms - stream);
  EXPECT_EQ(bytes(), kept - 4 * stream);
  config.model.position.kind = Positions::rotary;
  const std::int64_t rotated = elements("rope");
  EXPECT_GT(rotated, 0);
  config.model.rotary.dim = config.model.head_dim / 4;
  EXPECT_EQ(elements("rope"), rotated / 4);
  config.model.norms.qk = true;
  EXPECT_EQ(elements("norm"), norms - stream + rotated);
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
      // plumbline does not repeat the last product of a recomputed part, nor does torchtitan.
      const bool again = recompute == Recompute::full && theirs.machine.software == "megatron-core-2024";
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
  const StageShape plain = first_shape(config);
  const Prediction without = predicted(config);
  config.parallel.tp.comm_overlap = true;
  const StageShape overlapped = first_shape(config);
  const Prediction with = predicted(config);
  for (const ActionType type : {ActionType::forward, ActionType::backward}) {
    const std::vector<OperatorCall> before = calls_of(work_of(plain, type));
    const std::vector<OperatorCall> after = calls_of(work_of(overlapped, type));
    EXPECT_NEAR(flops_of(after).value / flops_of(before).value, 1, 1e-12);
    EXPECT_NEAR(moved(after) / moved(before), 1, 0.05);
  }
  EXPECT_LT(with.time.exposed_tensor.value, 0.35 * without.time.exposed_tensor.value);
  EXPECT_LT(with.time.step.value, 0.95 * without.time.step.value);
  // Hidden time is still counted: the step without collectives is even shorter.
  EXPECT_GT(with.time.step.value, without.time.step.value - without.time.exposed_tensor.value);
}

// Megatron-Core keeps a rank's rows of a product's input; the weights' gradient needs all.
TEST(FrameworkList, InputsAreGatheredOnceMoreDuringTheirGradients) {
  struct Case {
    const char* software;
    bool sequences, frozen, fp8;
    std::string during;     // products
    std::int64_t elements;  // per token
  };
  for (const Case& c :
       {Case{"megatron-core", true, false, false, "fc1 qkv ", 4096},
        Case{"megatron-core", false, false, false, "", 0}, Case{"megatron-core", true, true, false, "", 0},
        Case{"megatron-core", true, false, true, "fc1 qkv ", 2048},
        Case{"torchtitan", true, false, false, "", 0}}) {
    RunConfig config = llama(c.software, 4, 1);
    config.parallel.sequence_parallel = c.sequences;
    if (c.frozen) config.finetune = {.frozen = Frozen::lora, .lora_rank = 16};
    if (c.fp8) config.numerics.fp8.format = Fp8Format::hybrid;
    const StageShape shape = first_shape(config);
    UnitWork work;
    framework_layer(shape, LayerPass::backward_input, 0, false, work);
    std::string during;
    int started = 0;
    for (const OperatorCall& call : work.calls) {
      if (call.is(CallKind::all_gather) && call.collective()->ticket > 0) {
        started = call.collective()->ticket;
        EXPECT_EQ(call.elements(), c.elements * shape.stream.tokens);
      }
      if (const auto* wait = call.as<WaitCall>(); wait != nullptr && wait->ticket == started) started = 0;
      if (call.as<GemmCall>() != nullptr && started > 0) during += std::string(call.label) + " ";
    }
    EXPECT_EQ(during, c.during) << c.software;
    EXPECT_EQ(started, 0) << "nobody waits";
  }
}

TEST(FrameworkList, SlowLaunchesAreWaitedFor) {
  const RunConfig config = gpt("megatron-2022");
  const Schedule schedule = schedule_for(config);
  const HardwareProfile& hardware = *find_hardware_preset("a100-sxm-80gb");
  Software traits = software_of(config);
  traits.host.operator_s = 0;
  const double device = predict(config, schedule, hardware, traits).time.step.value;
  traits.host.operator_s = 1e-3;
  const double host = predict(config, schedule, hardware, traits).time.step.value;
  traits.host.operator_s = 2e-3;
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
  expect_refused(config, "cuda_graph_impl: found transformer_engine with torchtitan");
  config.machine.software = "plumbline";
  EXPECT_THAT(why_invalid(config).value_or(""), testing::HasSubstr("expected none"));
}

// States are sharded within an instance, gradients are summed between instances: MaxText's and Paxml's
// replicas of FSDP groups, Megatron-LM's distributed optimizer.
TEST(FrameworkList, InstancesOfTheOptimizerHoldAllStatesEach) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.world_size = 64;  // 8 copies
  config.parallel.dp.zero_stage = 1;
  const auto optimizer = [](const Prediction& p) { return p.memory.ranks.front().held[Category::optimizer]; };
  const Prediction one = predicted(config);
  config.parallel.dp.optimizer_instances = 2;
  const Prediction two = predicted(config);
  EXPECT_NEAR(static_cast<double>(optimizer(two).value), 2.0 * static_cast<double>(optimizer(one).value), 16);
  EXPECT_EQ(two.memory.ranks.front().held[Category::gradients],
            one.memory.ranks.front().held[Category::gradients]);

  // Every layer is gathered within an instance, and its reduced gradient summed between them.
  config = llama("maxtext-save-qkv-proj");
  config.parallel.tensor = config.parallel.pipeline = 1;
  config.parallel.world_size = 64;
  config.parallel.dp.zero_stage = 3;
  config.batch.micro_batch_size = 1;
  config.parallel.dp.optimizer_instances = 8;
  const StageShape shape = first_shape(config);
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
    config.parallel.dp.zero_stage = zero;
    traits.communication.overlapped_reduction = true;
    const StepTime hidden = predict(config, schedule, hardware, traits).time;
    traits.communication.overlapped_reduction = false;
    const StepTime shown = predict(config, schedule, hardware, traits).time;
    EXPECT_LT(hidden.exposed_data.value, 0.75 * shown.exposed_data.value) << "ZeRO " << zero;
    EXPECT_LT(hidden.step.value, shown.step.value);
  }
}

TEST(FrameworkList, ParametersGatheredAlongsideTheForwardShowOneLayer) {
  RunConfig config = llama("megatron-core-2025");
  config.parallel.dp.zero_stage = 1;
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
  traits.communication.overlapped_gather = true;
  EXPECT_DOUBLE_EQ(gather(), 1.0 / 16);  // 16 layers on each of 2 stages
}

TEST(FrameworkList, RecomputationByNameRepeatsWhatIsNotKept) {
  RunConfig config = llama("maxtext-save-dot-except-mlp", 1, 1);
  config.recompute.granularity = Recompute::selective;
  const auto repeated = [&] {
    const StageShape shape = first_shape(config);
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

TEST(FrameworkList, WhatCannotBeIsRefusedInOneLine) {
  expect_refused(gpt("nosuch"), "software: found nosuch, expected one of deepspeed, ");
  const RunConfig theirs = gpt("megatron-2022");
  EXPECT_THAT(*why_unsupported(theirs), testing::HasSubstr("software: found megatron-2022"));
  EXPECT_EQ(why_unpredictable(theirs), std::nullopt);
}

}  // namespace
}  // namespace plumbline::framework_list_test
