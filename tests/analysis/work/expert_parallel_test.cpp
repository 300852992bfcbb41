// Experts spread over ranks in plumbline's own step: shapes, exchanges and the rows of a known routing
// against figures by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/operator_list.hpp"
#include "analysis/work/parameter_units.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::expert_parallel_test {
namespace {

using testing::HasSubstr;

/// On `ranks` ranks, which share only experts.
RunConfig spread(const char* model, int expert, int ranks) {
  RunConfig config;
  config.model = *find_preset(model);
  config.batch = {.seq_length = 4096, .micro_batch_size = 1, .global_batch_size = ranks};
  config.parallel.world_size = ranks;
  config.parallel.expert = expert;
  return config;
}

StageShape only_stage(const RunConfig& config) {
  EXPECT_EQ(why_invalid(config).value_or(""), "");
  return stage_shapes(config, 1).front();
}

/// Bytes that leave a rank in one exchange of a layer, by label.
double sent_in(const StageShape& shape, const std::string& label) {
  const std::int64_t layers = shape.layers - shape.dense_layers();
  double bytes = 0;
  for (const OperatorCall& call : forward_calls(shape)) {
    if (!call.is(CallKind::all_to_all) || call.label != label) continue;
    EXPECT_TRUE(call.among(Group::expert));
    bytes += static_cast<double>(call.bytes().value * call.count) * (call.collective()->ranks - 1) /
             call.collective()->ranks;
  }
  return bytes / static_cast<double>(layers);
}

/// DeepSeek-V3, sequences of 4096, 64 expert ranks: 462.4 MB each way (4096·8·7168·2·63/64).
TEST(ExpertParallel, ADispatchOfDeepSeekMovesWhatItShould) {
  const StageShape shape = only_stage(spread("deepseek-v3", 64, 64));
  EXPECT_NEAR(sent_in(shape, "expert all-to-all forward") / 1e6, 462.4, 0.05);
  EXPECT_NEAR(sent_in(shape, "expert all-to-all of results") / 1e6, 462.4, 0.05);
  EXPECT_EQ(sent_in(only_stage(spread("deepseek-v3", 1, 64)), "expert all-to-all forward"), 0);
}

/// Tokens are swapped: with more ranks rows and their kept tensors are equally many, experts fewer.
TEST(ExpertParallel, RowsDoNotBecomeFewerAndExpertsDo) {
  const StageShape whole = only_stage(spread("qwen3-30b-a3b", 1, 8));
  const ParameterUnit layer = units_of(whole).at(1);
  for (const int expert : {2, 4, 8}) {
    const StageShape shape = only_stage(spread("qwen3-30b-a3b", expert, 8));
    EXPECT_EQ(shape.mlp_rows(), whole.mlp_rows());
    EXPECT_EQ(shape.expert.copies, 8 / expert);
    const std::vector<ParameterUnit> units = units_of(shape);
    const ParameterUnit& experts = units.back();
    EXPECT_EQ(experts.kind, UnitKind::experts);
    EXPECT_EQ(experts.group, Group::expert_data);
    EXPECT_EQ(units.at(1).elements + expert * experts.elements, layer.elements);
    EXPECT_EQ(elements_of(shape).whole(),
              elements_of(whole).whole() - (expert - 1) * shape.layers * experts.elements);
  }
}

TEST(ExpertParallel, AKnownRoutingSaysHowManyRowsARankHas) {
  RunConfig config = spread("mixtral-8x7b", 2, 4);
  config.model.layers = 2;
  config.batch.global_batch_size = 8;
  const Schedule schedule = schedule_for(config);
  std::vector<RoutedTokens> routing;
  for (int copy = 0; copy < 4; ++copy) {
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      for (std::uint32_t microbatch = 0; microbatch < 2; ++microbatch) {
        std::vector<std::int32_t> tokens(8, 0);
        tokens[layer == 0 ? 0 : 7] = 8000 + 100 * copy + static_cast<std::int32_t>(microbatch);
        tokens[4] = 92 - 100 * copy % 92;
        routing.push_back({copy, layer, microbatch, tokens});
      }
    }
  }
  const StageShape shape = stage_shapes(config, schedule).front();
  const auto rows = [&](int data) {
    std::vector<std::int64_t> here;
    for (const KnownRows& layer :
         RoutedRows(config, schedule, routing, data).in_microbatch(shape, 1).moe.known_rows)
      here.push_back(layer.here);
    return here;
  };
  // Copies 0 and 1 share experts, and so do 2 and 3; the first of each has experts 0 to 3.
  EXPECT_EQ(rows(0), (std::vector<std::int64_t>{16102, 0}));
  EXPECT_EQ(rows(2), (std::vector<std::int64_t>{16502, 0}));
  EXPECT_EQ(rows(1)[0] + 16102, rows(1)[1]);
  // A rank without rows sends its tokens and gets nothing; memory follows.
  const auto at = [&](int data) { return RoutedRows(config, schedule, routing, data); };
  const Traffic first = predict_traffic(config, schedule, 0, at(0));
  const Traffic second = predict_traffic(config, schedule, 1, at(1));
  EXPECT_NE(first.of(Group::expert), second.of(Group::expert));
  const MemoryPrediction even = predict_memory(config, schedule);
  EXPECT_NE(predict_memory(config, schedule, MemoryDetail::peaks, at(0)).peak, even.peak);
  routing.pop_back();
  try {
    (void)at(3).in_microbatch(shape, 1);
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("routing: found 1 copies in layer 1 and micro-batch 1, expected 2"));
  }
  routing.front().tokens.pop_back();
  EXPECT_THROW(at(0), InputError);
}

}  // namespace
}  // namespace plumbline::expert_parallel_test
