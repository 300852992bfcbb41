// Host launches in an MoE layer of other software, and copies for FP8.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "analysis/predict/predict.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::framework_launches_test {
namespace {

RunConfig mixture(int expert) {
  RunConfig config;
  config.model = *find_preset("qwen3-30b-a3b");
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = 256};
  config.numerics.precision = DType::bf16;
  config.parallel.expert = expert;
  config.parallel.world_size = 8;
  config.parallel.dp.zero_stage = 1;
  config.machine.hardware = "h100-sxm-80gb";
  config.machine.software = "megatron-core";
  return config;
}

std::vector<OperatorCall> work_of_stage(const RunConfig& config, ActionType type) {
  return calls_of(framework_work(stage_shapes(config, 1).front(), type));
}

double seconds_of(const RunConfig& config, ActionType type, Seconds UnitWork::*seconds) {
  const ActionWork work = framework_work(stage_shapes(config, 1).front(), type);
  double sum = 0;
  for (const ActionWork::Run& run : work.runs)
    sum += (work.parts[run.part].*seconds).value * static_cast<double>(run.repeat);
  return sum;
}

/// Launches of an action besides experts' products.
double host_seconds(const RunConfig& config, ActionType type) {
  return seconds_of(config, type, &UnitWork::host);
}

// Dropless: the host reads the tokens' counts once, for an exchange, which needs them for its sizes, else for
// the experts. Overlapped exchanges read on a stream of their own.
TEST(FrameworkLaunches, TheHostReadsCountsOfDroplessExperts) {
  struct Case {
    TokenDispatcher dispatcher;
    int expert;
    CudaGraphImpl graphs;
    bool overlapped;
    int reads;
  };
  using enum TokenDispatcher;
  using Graphs = CudaGraphImpl;
  const Case cases[] = {{alltoall, 8, Graphs::none, false, 1},
                        {flex, 8, Graphs::none, false, 1},
                        {flex, 8, Graphs::transformer_engine, false, 1},
                        {flex, 8, Graphs::full_iteration, false, 0},
                        {flex, 8, Graphs::none, true, 0},
                        {flex, 8, Graphs::full_iteration, true, 0},
                        {alltoall, 8, Graphs::none, true, 0},
                        {flex, 1, Graphs::none, false, 1},
                        {allgather, 8, Graphs::none, false, 1}};
  for (const Case& c : cases) {
    RunConfig config = mixture(c.expert);
    config.parallel.ep.token_dispatcher = c.dispatcher;
    config.parallel.ep.overlap_comm = c.overlapped;
    config.machine.cuda_graph_impl = c.graphs;
    for (const ActionType type : {ActionType::forward, ActionType::backward}) {
      const std::vector<OperatorCall> calls = work_of_stage(config, type);
      const auto reads = std::count_if(calls.begin(), calls.end(),
                                       [](const OperatorCall& call) { return call.launch.reads; });
      EXPECT_EQ(reads, type == ActionType::forward ? c.reads : 0) << static_cast<int>(c.dispatcher);
    }
  }
}

// Small experts wait for launches, which one graph of the step removes.
TEST(FrameworkLaunches, GraphsOfTheStepRemoveLaunches) {
  RunConfig config = mixture(8);
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  const auto step = [&](CudaGraphImpl graphs, const char* hardware) {
    config.machine.cuda_graph_impl = graphs;
    config.machine.hardware = hardware;
    return predict(config, schedule_for(config), *find_hardware_preset(hardware)).time.step.value;
  };
  for (const char* hardware : {"h100-sxm-80gb", "gb200-nvl72"}) {
    const double graph = step(CudaGraphImpl::full_iteration, hardware);
    const double layers = step(CudaGraphImpl::transformer_engine, hardware);
    EXPECT_GT(layers, 1.05 * graph) << hardware;
    EXPECT_GE(step(CudaGraphImpl::none, hardware), layers) << hardware;
  }
}

// Rows are quantized expert by expert: one kernel, or three with a scale of the current tensor.
TEST(FrameworkLaunches, CastsOfExpertsAreLaunchedOneByOne) {
  const auto host = [](Fp8Recipe recipe) {
    RunConfig config = mixture(8);
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.numerics.fp8.recipe = recipe;
    return host_seconds(config, ActionType::backward);
  };
  constexpr double kLaunch = 8e-6;            // host_operator_s
  const double each = 48 * 2 * 16 * kLaunch;  // layers, grouped layers, experts of a rank
  EXPECT_NEAR(host(Fp8Recipe::blockwise) - host(Fp8Recipe::delayed), each, 1e-6);
  EXPECT_NEAR(host(Fp8Recipe::tensorwise) - host(Fp8Recipe::delayed), 3 * each, 1e-6);
}

// Transformer Engine's Python handles every expert of both grouped layers, quantized ones longer
// (results/recorded/epyc-2-cores, experts_host.txt); graphs of whole layers have it if rows are padded.
TEST(FrameworkLaunches, ExpertsAreHandledOneByOne) {
  struct Case {
    ActionType type;
    Fp8Format format;
    CudaGraphImpl graphs;
    bool padded;
    double seconds;  // of an expert in one grouped layer
  };
  using Graphs = CudaGraphImpl;
  const Case cases[] = {
      {ActionType::forward, Fp8Format::none, Graphs::none, false, 3.2e-6},
      {ActionType::backward, Fp8Format::none, Graphs::none, false, 7.3e-6},
      {ActionType::backward, Fp8Format::none, Graphs::none, true, 7.3e-6},
      {ActionType::backward, Fp8Format::none, Graphs::local, false, 7.3e-6},
      {ActionType::backward, Fp8Format::none, Graphs::local, true, 0},
      {ActionType::backward, Fp8Format::none, Graphs::full_iteration, false, 0},
      {ActionType::forward, Fp8Format::hybrid, Graphs::none, false, 14.9e-6},
      {ActionType::backward, Fp8Format::hybrid, Graphs::none, false, 18.8e-6},
  };
  for (const Case& c : cases) {
    const auto host = [&](int ranks) {
      RunConfig config = mixture(ranks);
      config.parallel.ep.token_dispatcher = TokenDispatcher::alltoall;
      config.numerics.fp8.format = c.format;
      config.machine.cuda_graph_impl = c.graphs;
      config.mixture.pad_to_capacity = c.padded;
      if (c.padded) config.mixture.capacity_factor = 1;
      return seconds_of(config, c.type, &UnitWork::host_python);
    };
    EXPECT_NEAR(host(4) - host(8), 48 * 16 * 2 * c.seconds, 1e-6)  // layers, experts, grouped layers
        << static_cast<int>(c.type) << static_cast<int>(c.graphs) << c.padded;
  }
}

// Megatron-Core's Python besides launches (results/recorded/xeon-2-cores, layer_host.txt), less what graphs
// hold. Microseconds of a layer: attention 528 + 182, routing 301, exchange 554, both grouped layers of 16
// experts 2 (34 + 14 + 16 * 3.2) = 198.4; without experts 311.
TEST(FrameworkLaunches, ModulesTakePythonWhereNoGraphHasThem) {
  struct Case {
    const char* modules;  // in graphs; nullptr: none
    TokenDispatcher dispatcher;
    const char* software;
    double microseconds;
  };
  using enum TokenDispatcher;
  const Case cases[] = {{nullptr, alltoall, "megatron-core", 1763.4},
                        {"attn", alltoall, "megatron-core", 1053.4},
                        {"moe_router,moe_preprocess", alltoall, "megatron-core", 1462.4},
                        {"attn,moe_router,moe_preprocess", alltoall, "megatron-core", 752.4},
                        {nullptr, flex, "megatron-core", 1435.4},
                        {nullptr, alltoall, "torchtitan-2025", 0}};
  for (const Case& c : cases) {
    RunConfig config = mixture(8);
    config.parallel.ep.token_dispatcher = c.dispatcher;
    config.machine.software = c.software;
    if (c.modules != nullptr) {
      config.machine.cuda_graph_impl = CudaGraphImpl::transformer_engine;
      config.machine.cuda_graph_modules = c.modules;
    }
    EXPECT_NEAR(seconds_of(config, ActionType::forward, &UnitWork::host_python), 48e-6 * c.microseconds, 1e-9)
        << (c.modules == nullptr ? c.software : c.modules);
  }
}

// Eight operators of an expert's biases themselves, and two for the gradient of each, which is added to the
// rank's buffer in a kernel of its own.
TEST(FrameworkLaunches, GradientsOfBiasesAreAddedOneByOne) {
  RunConfig config = mixture(8);
  const double without = host_seconds(config, ActionType::backward);
  config.model.biases.linear = true;
  constexpr double kLaunch = 8e-6;  // host_operator_s
  EXPECT_NEAR(host_seconds(config, ActionType::backward) - without, 48 * 16 * (8 + 2 * 2) * kLaunch, 1e-6);
}

// FP8 products read whole blocks of rows: copies fill them up, but for kernels that dispatch so.
TEST(FrameworkLaunches, RowsOfExpertsAreFilledUpInFp8) {
  RunConfig config = mixture(8);
  const auto padded = [&](TokenDispatcher dispatcher, DType precision) {
    config.parallel.ep.token_dispatcher = dispatcher;
    config.numerics.fp8.format = precision == DType::bf16 ? Fp8Format::none : Fp8Format::hybrid;
    const std::vector<OperatorCall> calls = work_of_stage(config, ActionType::forward);
    return std::count_if(calls.begin(), calls.end(), [](const OperatorCall& call) {
      return std::string_view(call.label).ends_with("pad experts");
    });
  };
  EXPECT_EQ(padded(TokenDispatcher::alltoall, DType::fp8_e4m3), 2) << "and taken away again";
  EXPECT_EQ(padded(TokenDispatcher::flex, DType::fp8_e4m3), 0);
  EXPECT_EQ(padded(TokenDispatcher::alltoall, DType::bf16), 0);
}

}  // namespace
}  // namespace plumbline::framework_launches_test
