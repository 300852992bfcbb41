// MoE models that other software spreads over ranks: sizes, bytes, and which of them shrink with more ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/parameter_units.hpp"
#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/analysis/work/framework_runs.hpp"

namespace plumbline::framework_mixture_test {
namespace {

using namespace frameworks;
using testing::HasSubstr;

// world = ETP · EP · EDP (with one stage), for any sizes of attention (arXiv:2504.14960).
TEST(FrameworkMixture, ExpertsAreCutFromTheRanksOnTheirOwn) {
  struct Case {
    int tensor, expert, expert_tensor, world;
    std::int64_t local, rows;
    int copies;
  };
  const Case cases[] = {
      {1, 1, 0, 8, 8, 4096 * 2, 8},     {1, 8, 0, 8, 1, 4096 * 2, 1},
      {2, 4, 0, 8, 2, 2048 * 2 * 2, 1},  // both tensor ranks work on the rows of both
      {2, 4, 1, 8, 2, 2048 * 2, 2},     {4, 2, 2, 16, 4, 1024 * 2 * 2, 4},
  };
  for (const Case& c : cases) {
    const RunConfig config = mixture("mixtral-8x7b", c.tensor, c.expert, c.expert_tensor, c.world);
    ASSERT_EQ(why_invalid(config), std::nullopt);
    ASSERT_EQ(why_unpredictable(config), std::nullopt);
    const ExpertShape expert = shape_of(config).expert;
    EXPECT_EQ(expert.local, c.local);
    EXPECT_EQ(expert.rows, c.rows);
    EXPECT_EQ(expert.copies, c.copies);
  }
}

// Tokens are swapped among ranks, not removed: a layer's kept activations stay, weights and their states
// shrink.
TEST(FrameworkMixture, RoutedActivationsDoNotShrinkWithExpertParallelism) {
  const StageShape one = shape_of(mixture("qwen3-30b-a3b", 1, 1, 0, 64));
  for (const int expert : {2, 8, 64}) {
    const StageShape shape = shape_of(mixture("qwen3-30b-a3b", 1, expert, 0, 64));
    EXPECT_EQ(framework_layer_bytes(shape), framework_layer_bytes(one)) << expert;
    EXPECT_EQ(spread_expert_elements(shape) * expert, spread_expert_elements(one)) << expert;
  }
}

// T·K·h·2·(EP-1)/EP bytes = 462.4 MB of a layer's dispatch, and equally many of its combine, leave a
// rank.
TEST(FrameworkMixture, WhatIsDispatchedToTheByte) {
  const StageShape shape = shape_of(mixture("deepseek-v3", 1, 64, 1, 64));
  const auto calls = calls_named(shape, ActionType::forward, "expert dispatch");
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].bytes().value * 63 / 64, 462'422'016);
  EXPECT_EQ(calls[0].collective()->ranks, 64);
  EXPECT_EQ(calls_named(shape, ActionType::backward, "expert combine").size(), 1);
}

// All ranks together multiply as much for any placement of experts, except for the padding of the vocabulary.
TEST(FrameworkMixture, AllRanksTogetherComputeTheSame) {
  const auto flops = [](const RunConfig& config) { return executed_flops_per_token(config, 1).value / 1e9; };
  for (const char* model : {"mixtral-8x7b", "qwen3-30b-a3b"}) {
    const double whole = flops(mixture(model, 1, 1, 0, 8));
    EXPECT_NEAR(flops(mixture(model, 1, 8, 0, 8)) / whole, 1, 1e-3) << model;
    EXPECT_NEAR(flops(mixture(model, 4, 2, 4, 8)) / whole, 1, 1e-3) << model;
    EXPECT_NEAR(flops(mixture(model, 4, 8, 1, 8)) / whole, 1, 1e-3) << model;
    const double formula = model_flops_per_token(mixture(model, 1, 1, 0, 8)).value / 1e9;
    EXPECT_NEAR(whole / formula, 1, 0.05) << model;  // attention's backward computes the scores again
  }
}

// Experts' gradients are reduced over their own copies, all others over data and context ranks.
TEST(FrameworkMixture, GradientsAreReducedAmongTheirCopies) {
  const RunConfig config = mixture("mixtral-8x7b", 2, 4, 1, 16);
  const StageShape shape = shape_of(config);
  HeldStages rank;
  rank.held = {shape};
  rank.layout = config.layout();
  std::int64_t experts = 0;
  std::int64_t rest = 0;
  for (const OperatorCall& call : framework_reduction_calls(rank)) {
    const CollectiveCall& collective = *call.collective();
    if (collective.stride > 0) {
      EXPECT_EQ(collective.ranks, 4);   // 16 / (ETP 1 · EP 4)
      EXPECT_EQ(collective.stride, 4);  // ETP · EP ranks are not alike
      experts += call.elements();
    } else {
      EXPECT_EQ(collective.ranks, 8);
      rest += call.elements();
    }
  }
  EXPECT_EQ(experts, 32 * 2 * 3 * 14336LL * 4096);
  EXPECT_EQ(experts + rest, elements_of(shape).whole());
  for (const GradientBucket& bucket : gradient_buckets(shape, config.parallel.dp.bucket_size)) {
    (bucket.reduce.collective()->stride > 0 ? experts : rest) -= bucket.reduce.elements();
  }
  EXPECT_EQ(experts, 0);
  EXPECT_EQ(rest, vectors_of(shape).total());
}

// DeepEP and HybridEP, and NCCL's all-to-all, 4096 tokens of 7168 in bf16 to 8 experts (arXiv:2603.07685
// table 7).
TEST(FrameworkMixture, DispatchTakesWhatWasMeasured) {
  struct Case {
    const char* hardware;
    int ranks;
    double flex_us, all_to_all_us;  // 0: not measured
    std::int64_t most_nodes;
  };
  const Case cases[] = {{"gb200-nvl72", 8, 391, 735, 0},
                        {"h100-sxm-80gb", 64, 4626, 9164, 4},
                        {"h100-sxm-80gb", 16, 1485, 5774, 0}};
  const double bytes = 4096.0 * 7168 * 2;
  for (const Case& c : cases) {
    const Network& network = find_hardware_preset(c.hardware)->accelerator()->constants.network;
    const Span group{c.ranks, 1};
    const Dispatched sent{.bytes = bytes, .choices = 8, .most_nodes = static_cast<double>(c.most_nodes)};
    EXPECT_NEAR(dispatch_seconds(network, group, sent) * 1e6 / c.flex_us, 1, 0.12) << c.hardware;
    EXPECT_NEAR(all_to_all_seconds(network, group, bytes * 8) * 1e6 / c.all_to_all_us, 1, 0.12) << c.hardware;
  }
}

// HybridEP's kernels with 16 multiprocessors, 8 experts of a rank, tokens' weights for all of them: GB/s of
// the tokens alone (deepseek-ai/DeepEP@94a9f8f6 docs/README_Hybrid-EP.md).
TEST(FrameworkMixture, DispatchWithWeightsAndCombinationTakeWhatWasMeasured) {
  struct Case {
    const char* hardware;
    int ranks;
    double dispatch, combine;
  };
  const Case cases[] = {{"gb200-nvl72", 8, 750, 684},  {"gb200-nvl72", 16, 662, 601},
                        {"gb200-nvl72", 24, 638, 566}, {"gb200-nvl72", 32, 630, 547},
                        {"gb200-nvl72", 36, 613, 543}, {"b200-sxm-180gb", 8, 735, 674}};
  for (const Case& c : cases) {
    const Network& network = find_hardware_preset(c.hardware)->accelerator()->constants.network;
    const Dispatched sent{.bytes = 4096.0 * 7168 * 2, .choices = 8, .weights = 4096.0 * 8 * c.ranks * 4};
    Dispatched back = sent;
    back.combines = true;
    const double received = sent.bytes * places_chosen(c.ranks, 8) / 1e9;
    const auto rate = [&](const Dispatched& tokens) {
      return received / (dispatch_seconds(network, {c.ranks, 1}, tokens) - network.node_base_s);
    };
    EXPECT_NEAR(rate(sent) / c.dispatch, 1, 0.08) << c.hardware << c.ranks;
    EXPECT_NEAR(rate(back) / c.combine, 1, 0.08) << c.hardware << c.ranks;
  }
}

// NeMo's recipes permute by PyTorch's operators, which add atomically.
TEST(FrameworkMixture, PermutationWithoutFusionTakesLonger) {
  const auto bytes = [](const char* software, ActionType type) {
    RunConfig config = mixture("mixtral-8x7b", 1, 8, 0, 8);
    config.machine.software = software;
    return calls_named(shape_of(config), type, "unpermute")[0].as<StreamCall>()->bytes_per_element;
  };
  EXPECT_EQ(bytes("megatron-bridge", ActionType::backward), 4);
  EXPECT_EQ(bytes("nemo-2025", ActionType::forward), 11);
  EXPECT_EQ(bytes("nemo-2025", ActionType::backward), 22);
}

TEST(FrameworkMixture, AnExchangeWithinANodeIsFaster) {
  const auto step = [](int expert, TokenDispatcher dispatcher) {
    RunConfig config = mixture("qwen3-30b-a3b", 1, expert, 0, 64);
    config.parallel.ep.token_dispatcher = dispatcher;
    return predict(config, schedule_for(config), *find_hardware_preset("h100-sxm-80gb")).time.step.value;
  };
  EXPECT_GT(step(64, TokenDispatcher::alltoall), 1.2 * step(8, TokenDispatcher::alltoall));
  EXPECT_LT(step(64, TokenDispatcher::flex), 0.95 * step(64, TokenDispatcher::alltoall));
}

// overlap_moe_expert_parallel_comm: an exchange costs no more than its exposed rest and the slowdown by its
// multiprocessors; the same bytes travel.
TEST(FrameworkMixture, AnOverlappedExchangeHidesBehindTheOtherMicroBatch) {
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  const auto step = [&] {
    return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware)).time;
  };
  const auto exchanged = [&] {
    double bytes = 0;
    for (const OperatorCall& call : calls_named(shape_of(config), ActionType::backward, "expert "))
      bytes += call.is(CallKind::all_to_all) ? static_cast<double>(call.bytes().value) : 0;
    return bytes;
  };
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
  const auto exposed = step();
  const double bytes = exchanged();
  config.parallel.ep.overlap_comm = true;
  const auto hidden = step();
  EXPECT_EQ(exchanged(), bytes);
  EXPECT_LT(hidden.exposed_tensor.value, 0.15 * exposed.exposed_tensor.value);
  EXPECT_LT(hidden.step.value, exposed.step.value);
  EXPECT_GT(hidden.step.value, exposed.compute.value)
      << "multiprocessors that the exchange holds do not compute";
}

// The dispatch hides behind the calls up to the experts, the combine behind the rest; backward the combine's
// gradient behind the experts, the dispatch's behind attention.
TEST(FrameworkMixture, EachOverlappedExchangeHasItsPartOfTheLayer) {
  struct Case {
    ActionType type;
    const char *before, *between;  // the first wait, and the second
  };
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  config.parallel.ep.overlap_comm = true;
  for (const Case& c : {Case{ActionType::forward, "attention forward", "fc2 forward"},
                        Case{ActionType::backward, "fc1 input_gradient", "attention backward"}}) {
    std::string order;
    for (const OperatorCall& call : calls_of(framework_work(shape_of(config), c.type))) {
      const std::string label = label_of(call);
      if (call.as<WaitCall>() != nullptr) order += "wait,";
      if (call.is(CallKind::all_to_all)) order += "start,";
      if (label == c.before || label == c.between) order += label + ",";
    }
    const std::string layer = std::string("start,") + c.before + ",wait,start," + c.between + ",wait,";
    EXPECT_EQ(order.substr(0, layer.size()), layer);
  }
}

// What tells a rank about its rows: HybridEP gathers a byte per token and expert, the all-to-all counts of
// eight bytes per expert, and each way weights in fp32 behind the tokens.
TEST(FrameworkMixture, RoutingTravelsBesideTheTokens) {
  const auto bytes = [](TokenDispatcher dispatcher, ActionType type, const char* part) {
    RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
    config.parallel.ep.token_dispatcher = dispatcher;
    double sum = 0;
    for (const OperatorCall& call : calls_named(shape_of(config), type, part))
      sum += static_cast<double>(call.count * call.bytes().value);
    return sum;
  };
  constexpr auto kForward = ActionType::forward, kBackward = ActionType::backward;
  EXPECT_EQ(bytes(TokenDispatcher::flex, kForward, "routing map all-gather"), 48 * 4096.0 * 128 * 8);
  EXPECT_EQ(bytes(TokenDispatcher::flex, kBackward, "routing map all-gather"), 0);
  EXPECT_EQ(bytes(TokenDispatcher::alltoall, kForward, "expert counts all-gather"), 48 * 8.0 * 128 * 8);
  EXPECT_EQ(bytes(TokenDispatcher::alltoall, kForward, "expert weights exchange"), 48 * 4096.0 * 8 * 4);
  EXPECT_EQ(bytes(TokenDispatcher::alltoall, kBackward, "expert weights exchange"), 48 * 4096.0 * 8 * 4);
}

// HybridEP: 4096 tokens take 128 weights of four bytes along to their experts, and bring as many gradients.
// Results and their gradients travel alone.
TEST(FrameworkMixture, HybridEpTakesWeightsAlong) {
  struct Case {
    const char* software;
    ActionType type;
    const char* exchange;
    std::int64_t weights;
    bool combines;
  };
  const std::int64_t all = 4096 * 128 * 4;
  const Case cases[] = {
      {"megatron-bridge", ActionType::forward, "expert dispatch forward", all, false},
      {"megatron-bridge", ActionType::forward, "expert combine forward", 0, true},
      {"megatron-bridge", ActionType::backward, "expert combine backward", 0, false},
      {"megatron-bridge", ActionType::backward, "expert dispatch backward", all, true},
      {"torchtitan-2025", ActionType::backward, "expert dispatch backward", 0, false},  // DeepEP
  };
  for (const Case& c : cases) {
    RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
    config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
    config.machine.software = c.software;
    const auto calls = calls_named(shape_of(config), c.type, c.exchange);
    ASSERT_FALSE(calls.empty()) << c.exchange;
    EXPECT_EQ(calls[0].collective()->weights, c.weights) << c.exchange;
    EXPECT_EQ(calls[0].collective()->combines, c.combines) << c.exchange;
  }
}

// gpt-oss: a clamped gate and YaRN with an mscale have passes of their own, but in a graph of the step the
// gate has none.
TEST(FrameworkMixture, GptOssHasPassesWithoutFusedKernels) {
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  const auto turned = [&] {
    double bytes = 0;
    for (const OperatorCall& call : calls_of(framework_work(shape_of(config), ActionType::forward)))
      if (label_of(call) == "rope") bytes += call.as<StreamCall>()->bytes_per_element;
    return bytes;
  };
  const double fused = turned();
  config.model.biases.linear = true;
  EXPECT_GT(turned(), 5 * fused);
  EXPECT_FALSE(calls_named(shape_of(config), ActionType::forward, "clamp gate").empty());
  EXPECT_FALSE(calls_named(shape_of(config), ActionType::backward, "clamp gate").empty());
  const auto gradients = calls_named(shape_of(config), ActionType::backward, "add bias gradients");
  ASSERT_FALSE(gradients.empty());
  EXPECT_EQ(gradients[0].count, 48 * 2 * 16) << "layers, biases, experts of a rank";
  EXPECT_EQ(gradients[0].elements(), (2 * 768 + 2048) / 2) << "on average";
  config.machine.cuda_graph_impl = CudaGraphImpl::full_iteration;
  EXPECT_TRUE(calls_named(shape_of(config), ActionType::forward, "clamp gate").empty());
}

// Biases of experts' outputs are added expert by expert (gpt-oss).
TEST(FrameworkMixture, BiasesOfExpertsTakePassesOfTheirOwn) {
  RunConfig config = mixture("qwen3-30b-a3b", 1, 8, 0, 8);
  const auto step = [&] {
    return predict(config, schedule_for(config), *find_hardware_preset(config.machine.hardware))
        .time.step.value;
  };
  const double without = step();
  config.model.biases.linear = true;
  EXPECT_GT(step(), 1.05 * without);
}

TEST(FrameworkMixture, WhatDoesNotFitIsRefusedInOneLine) {
  struct Case {
    int tensor, expert, expert_tensor, world;
    const char* reason;
  };
  const Case cases[] = {
      {1, 3, 0, 8, "expert_model_parallel_size: found 3, expected a divisor of the 8 experts"},
      {1, 8, 3, 24, "expert_tensor_parallel_size: found 3, expected a divisor of 14336"},
      {1, 8, 2, 8, "world_size: found 8, expected a multiple of expert tensor x expert x pipeline"},
  };
  for (const Case& c : cases) {
    RunConfig config = mixture("mixtral-8x7b", c.tensor, c.expert, c.expert_tensor, c.world);
    config.batch.global_batch_size = 240;
    const auto reason = why_invalid(config);
    ASSERT_TRUE(reason) << c.reason;
    EXPECT_THAT(*reason, HasSubstr(c.reason));
    EXPECT_EQ(reason->find('\n'), std::string::npos);
  }
  RunConfig config = mixture("mixtral-8x7b", 2, 4, 0, 8);
  config.parallel.sequence_parallel = false;
  EXPECT_THAT(why_invalid(config).value_or(""), HasSubstr("sequence_parallel: found false"));
  // Plumbline's own step spreads experts by all-to-all alone.
  config = mixture("mixtral-8x7b", 1, 8, 0, 8);
  config.machine.software = "plumbline";
  EXPECT_EQ(why_unsupported(config), std::nullopt);
  EXPECT_EQ(why_invalid(config), std::nullopt);
  config.parallel.ep.token_dispatcher = TokenDispatcher::flex;
  EXPECT_THAT(why_invalid(config).value_or(""), HasSubstr("moe_token_dispatcher_type: found flex"));
  config.parallel.ep.token_dispatcher = TokenDispatcher::automatic;
  EXPECT_EQ(why_unpredictable(config), std::nullopt);
}

}  // namespace
}  // namespace plumbline::framework_mixture_test
