// Context parallelism in plumbline's own step: the token pairs that a list counts, the gain of load balance,
// and the messages that attention hides.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::context_list_test {
namespace {

RunConfig long_sequence(int ranks) {
  RunConfig config;
  config.model = *find_preset("llama-3.1-8b");
  config.model.layers = 2;
  config.batch = {.seq_length = 65536, .micro_batch_size = 1, .global_batch_size = 1};
  config.numerics.precision = DType::bf16;
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.world_size = config.parallel.context = ranks;
  return config;
}

StageShape shape_of(const RunConfig& config) {
  return stage_shapes(config, 1).front();
}

Flops attention_flops(const std::vector<OperatorCall>& calls) {
  Flops sum;
  for (const OperatorCall& call : calls) {
    if (call.as<AttentionCall>() != nullptr) sum += flops_of(call);
  }
  return sum;
}

Seconds attention_time(const RunConfig& config) {
  const HardwareProfile hardware = *find_hardware_preset(config.machine.hardware);
  Load load;
  load.layout = config.layout();
  Seconds sum;
  for (const OperatorCall& call : forward_calls(shape_of(config))) {
    if (call.as<AttentionCall>() != nullptr) sum += time_of(call, hardware, load);
  }
  return sum;
}

TEST(ContextList, CountsThePairsOfWindowsAndOfPartsOfTheKeys) {
  for (const std::int64_t window : {0, 40, 100, 170}) {
    for (const std::int64_t past : {0, 100, 200, 300}) {
      const AttentionCall call{.queries = 100, .window = window, .past = past, .keys = 100};
      double pairs = 0;  // the token itself counts half, as in keys_per_query
      for (std::int64_t i = past; i < past + 100; ++i) {
        for (std::int64_t j = 0; j < 100; ++j) {
          if (j <= i && (window == 0 || i - j < window)) pairs += i == j ? 0.5 : 1;
        }
      }
      EXPECT_NEAR(pairs_of(call), pairs, 51) << window << " " << past;
    }
  }
}

TEST(ContextList, BalanceIsWorthWhatTheLastRankHasMoreOfPairs) {
  for (const int ranks : {2, 4, 8}) {
    RunConfig config = long_sequence(ranks);
    const double whole = attention_flops(forward_calls(shape_of(long_sequence(1)))).value / ranks;
    for (const CpCommType type :
         {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a, CpCommType::a2a_p2p}) {
      if (type == CpCommType::a2a_p2p && ranks == 2) continue;
      config.parallel.cp.comm_type = type;
      config.parallel.cp.hierarchical = {};
      if (type == CpCommType::a2a_p2p) config.parallel.cp.hierarchical = {2, ranks / 2};
      config.parallel.cp.load_balance = true;
      EXPECT_NEAR(attention_flops(forward_calls(shape_of(config))).value / whole, 1, 1e-9);
      EXPECT_NEAR(attention_flops(backward_calls(shape_of(config))).value / whole, 2.5, 1e-9);
      const Seconds balanced = attention_time(config);
      config.parallel.cp.load_balance = false;
      const double parts = static_cast<double>(ranks) / config.parallel.head_ranks();
      const double ratio = (2 * parts - 1) / parts;
      EXPECT_NEAR(attention_flops(forward_calls(shape_of(config))).value / whole, ratio, 1e-9);
      EXPECT_NEAR(attention_time(config) / balanced / ratio, 1, 0.02) << cp_comm_type_name(type) << ranks;
    }
  }
}

/// In the forward the ring's messages overlap with the blocks, and gathers are exposed.
TEST(ContextList, ARingHidesWhatAGatherWaitsFor) {
  const auto hidden = [](CpCommType type, const char* label) {
    RunConfig config = long_sequence(4);
    config.parallel.cp.comm_type = type;
    const HardwareProfile hardware = *find_hardware_preset(config.machine.hardware);
    const Prediction prediction = predict(config, schedule_for(config), hardware);
    for (const CostLine& line : prediction.lines) {
      if (line.phase == std::string("forward") && line.label == label) return line;
    }
    return CostLine{};
  };
  const CostLine ring = hidden(CpCommType::p2p, "context ring forward");
  EXPECT_EQ(ring.count, 2 * 3);
  EXPECT_GT(ring.hidden.value, 0);
  EXPECT_EQ(ring.seconds.value, 0);
  const CostLine gathered = hidden(CpCommType::all_gather, "context all-gather forward");
  EXPECT_EQ(gathered.count, 2);
  EXPECT_GT(gathered.seconds.value, 0);
  EXPECT_EQ(gathered.hidden.value, 0);
}

TEST(ContextList, AWindowLeavesOutTheBlocksBeforeIt) {
  RunConfig config = long_sequence(4);
  const std::int64_t chunk = config.batch.seq_length / 8;
  const auto blocks = [&](std::int64_t window) {
    config.model.window.size = window;
    std::int64_t count = 0;
    for (const OperatorCall& call : forward_calls(shape_of(config))) {
      if (call.as<AttentionCall>() != nullptr) count += call.count;
    }
    return count / config.model.layers;
  };
  EXPECT_EQ(blocks(0), 3 + 3 * 2);
  // The last rank has chunks 3 and 4: of chunks 0 to 2, one key of the last of them is seen by chunk 3.
  EXPECT_EQ(blocks(2), 3 + 1);
  EXPECT_EQ(blocks(1), 2);
  EXPECT_EQ(blocks(chunk + 1), 3 + 1);
  EXPECT_EQ(blocks(chunk + 2), 3 + 3);
}

}  // namespace
}  // namespace plumbline::context_list_test
