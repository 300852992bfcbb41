// Hybrid models in Megatron-Core's step: what each kind of layer computes, keeps and launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/step/parameters.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_mamba_test {
namespace {

using namespace frameworks;

RunConfig nano(int tensor = 1, int expert = 8) {
  return mixture("nemotron-3-nano-30b-a3b", tensor, expert, 1, 8);
}

/// A layer of that kind, of the first stage.
StageShape layer_of(const RunConfig& config, Mixer mixer, bool feed_forward) {
  const StageShape stage = shape_of(config);
  for (const AlikeLayers& alike : stage.alike_layers()) {
    if (alike.kind.mixer == mixer && alike.kind.feed_forward == feed_forward) return stage.like(alike.kind);
  }
  ADD_FAILURE() << "no such layer";
  return stage;
}

std::int64_t layers_of(const RunConfig& config, Mixer mixer) {
  std::int64_t layers = 0;
  for (const AlikeLayers& alike : shape_of(config).alike_layers())
    layers += alike.kind.mixer == mixer ? alike.layers : 0;
  return layers;
}

TEST(FrameworkMamba, LayersAreThoseOfThePattern) {
  EXPECT_EQ(layers_of(nano(), Mixer::mamba), 23);
  EXPECT_EQ(layers_of(nano(), Mixer::attention), 6);
  EXPECT_EQ(layers_of(nano(), Mixer::none), 23);
}

// All ranks together hold the model, for any cut of mixers and experts; norms and routers are on every tensor
// rank.
TEST(FrameworkMamba, RanksHoldTheModel) {
  for (const int tensor : {1, 2}) {
    const StageShape stage = shape_of(nano(tensor));
    const std::int64_t spread = 23 * spread_expert_matrices(stage);
    const std::int64_t rest = parameters_of(stage).total() - spread;
    const std::int64_t alike = 53 * 2688 + 23 * 128 * 2688;  // on all ranks
    const std::int64_t model = find_preset("nemotron-3-nano-30b-a3b")->parameters() - 23 * 128;  // biases
    EXPECT_EQ((rest - alike) * tensor + alike + spread * 8, model) << tensor;
  }
}

// h = 2688, 64 heads of 64, 8 groups of 128 states: in 2·4096 + 2·1024 + 64 columns, out 4096.
TEST(FrameworkMamba, AMixerMultipliesTwiceAndScans) {
  const StageShape layer = layer_of(nano(), Mixer::mamba, false);
  double products = 0;
  std::vector<std::string> labels;
  for (const OperatorCall& call : forward_of_layer(layer)) {
    labels.emplace_back(call.label);
    if (call.as<GemmCall>() != nullptr) products += flops_of(call).value;
    EXPECT_EQ(call.as<AttentionCall>(), nullptr);
  }
  EXPECT_DOUBLE_EQ(products, 2.0 * 4096 * 2688 * (10304 + 4096));
  for (const char* kernel :
       {"convolution", "mamba states", "mamba state passing", "mamba scan", "mamba norm"})
    EXPECT_EQ(std::count(labels.begin(), labels.end(), kernel), 1) << kernel;
}

// Bytes of a token: x, gates and the result 4096 elements, B and C 1024 each, step sizes and their sums 64 in
// fp32, a chunk's states 4096·128 by 128 tokens, products of a chunk 128 in fp32 for each of 8 groups.
TEST(FrameworkMamba, KernelsReadAndWriteEachTensorOnce) {
  const struct {
    const char* kernel;
    double bytes;
  } kernels[] = {
      {"convolution", 2 * 2 * 6144},
      {"mamba states", 2 * 4096 + 2 * 1024 + 2 * 4 * 64 + 4 * 4096},
      {"mamba state passing", 4 * 4096 + 2 * 4096},  // read in fp32, written in 16 bits
      {"mamba chunk products", 2 * 2 * 1024 + 4 * 8 * 128},
      {"mamba scan", 4 * 8 * 128 + 2 * 1024 + 2 * 4096 + 2 * 4 * 64 + 4 * 2 * 4096},
  };
  for (const auto& [kernel, bytes] : kernels) {
    const auto calls = calls_named(shape_of(nano()), ActionType::forward, kernel);
    ASSERT_FALSE(calls.empty()) << kernel;
    const auto* moved = calls.front().as<StreamCall>();
    EXPECT_DOUBLE_EQ(static_cast<double>(moved->elements) * moved->bytes_per_element, 4096.0 * bytes)
        << kernel;
  }
}

// The layer's input; its norm's result; gates, x, B, C and steps; the scan's result before its gate and
// behind it, the latter's norm and that norm's statistics by group.
TEST(FrameworkMamba, WhatAMixerKeepsToTheByte) {
  const StageShape layer = layer_of(nano(), Mixer::mamba, false);
  EXPECT_EQ(framework_layer_bytes(layer), 4096 * (2 * 2688 * 2 + 2 * 10304 + 3 * 2 * 4096 + 4 * 8));
  const StageShape half = layer_of(nano(2), Mixer::mamba, false);
  EXPECT_EQ(framework_layer_bytes(half), framework_layer_bytes(layer) / 2);
}

// Graphs of mixers spare their launches, those of attention do not.
TEST(FrameworkMamba, GraphsOfMixersSpareTheirLaunches) {
  const auto host = [](const char* modules) {
    RunConfig config = nano();
    if (*modules != '\0') {
      config.machine.cuda_graph_impl = CudaGraphImpl::transformer_engine;
      config.machine.cuda_graph_modules = modules;
    }
    UnitWork work;
    framework_layer(layer_of(config, Mixer::mamba, false), LayerPass::forward, 0, false, work);
    return work.host.value + work.host_python.value;
  };
  EXPECT_LT(host("attn,mamba"), 0.2 * host(""));
  EXPECT_DOUBLE_EQ(host("attn"), host(""));
}

// With latent experts only the narrow tokens travel; both projections are the rank's own.
TEST(FrameworkMamba, LatentExpertsExchangeNarrowTokens) {
  RunConfig config = mixture("nemotron-3-super-120b-a12b", 1, 8, 1, 8);
  const auto sent = [](const RunConfig& c) {
    return calls_named(shape_of(c), ActionType::forward, "expert dispatch").front().bytes().value;
  };
  const std::int64_t latent = sent(config);
  EXPECT_EQ(calls_named(shape_of(config), ActionType::forward, "to experts").size(), 1);
  config.model.mixture.latent = 0;
  EXPECT_EQ(latent * 4, sent(config));
  EXPECT_TRUE(calls_named(shape_of(config), ActionType::forward, "to experts").empty());
}

// A scan's kernels take longer than streaming as many bytes, by the accelerator's shares.
TEST(FrameworkMamba, ScansHaveTheirOwnRates) {
  const Device& device = find_hardware_preset("b200-sxm-180gb")->accelerator()->constants.device;
  for (const char* name : {"convolution", "mamba scan"}) {
    OperatorCall call = calls_named(shape_of(nano()), ActionType::forward, name).front();
    const double scanned = accelerator_time(call, device).value;
    call.get<StreamCall>().rate = StreamRate::memory;
    EXPECT_GT(scanned, 1.5 * accelerator_time(call, device).value) << name;
  }
}

TEST(FrameworkMamba, OtherSoftwareIsRefused) {
  for (const char* software : {"torchtitan-2025", "deepspeed", "megatron-2022"}) {
    RunConfig config = nano(1, 1);
    config.machine.software = software;
    expect_refused(config, "whose Mamba mixers are predicted as Megatron-Core runs them");
  }
  RunConfig own = nano(1, 1);
  own.machine.software = "plumbline";
  EXPECT_THAT(why_unpredictable(own).value_or(""), testing::HasSubstr("whose step has no Mamba mixers"));
}

}  // namespace
}  // namespace plumbline::framework_mamba_test
