// Handwritten steps: every moment in its category, late ranks and causes by name.
#include "analysis/diagnose/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/diagnose/traces/trace_reader.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/diagnose/small_trace.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::diagnosis_test {
namespace {

using ::testing::HasSubstr;

constexpr double kMicro = 1e-6;

std::vector<ProfileTrace> traces_of(const std::vector<std::string>& texts) {
  const test::TemporaryFolder folder;
  std::vector<ProfileTrace> traces;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (ProfileTrace& rank : read_trace_file(folder.write(std::to_string(i) + ".json", texts[i])))
      traces.push_back(std::move(rank));
  }
  return traces;
}

Diagnosis diagnosis_of(const std::vector<SmallTrace>& ranks, std::optional<std::int64_t> step = {},
                       const GroupSizes& sizes = {}) {
  std::vector<std::string> texts;
  for (const SmallTrace& rank : ranks) texts.push_back(rank.text());
  return diagnose(traces_of(texts), step, sizes);
}

/// Microseconds expected of a category; all others are 0 but `rest`, which has what is left of the step.
struct Share {
  TimeShare share;
  double microseconds;
};

void expect_shares(const RankBreakdown& rank, const std::vector<Share>& shares, TimeShare rest) {
  SharedTime expected;
  for (const Share& each : shares) expected[each.share] += each.microseconds * kMicro;
  expected[rest] += rank.step.seconds() - expected.sum();
  for (std::size_t i = 0; i < kTimeShares; ++i)
    EXPECT_NEAR(rank.time.seconds[i], expected.seconds[i], 1e-9) << kTimeShareNames[i].key;
  EXPECT_NEAR(rank.time.sum(), rank.step.seconds(), 1e-9);
}

TEST(Diagnosis, GivesEveryMomentOfADeviceToOneCategory) {
  SmallTrace trace;
  trace.step(1, 0, 1000)
      .launched("aten::mm", "nvjet_tst_128x256", "7", 10, 100, 200, "[[64,32],[32,16]]")
      .launched("aten::_flash_attention_forward", "pytorch_flash::flash_fwd_kernel", "7", 20, 300, 50)
      .launched("aten::add", "vectorized_elementwise_kernel", "7", 30, 350, 30)
      .collective("allreduce", "TENSOR_MODEL_PARALLEL_GROUP", 250, 70)  // hidden but for nothing
      .collective("_reduce_scatter_base", "DATA_PARALLEL_GROUP_WITH_CP", 380, 60)
      .collective("recv", "PIPELINE_MODEL_PARALLEL_GROUP", 500, 10)
      .collective("recv", "PIPELINE_MODEL_PARALLEL_GROUP", 520, 50)
      .slice("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "7", 600, 20)
      .slice("user_annotation", "Optimizer.step#AdamW.step", "1", 640, 100)
      .launched("aten::_fused_adamw_", "multi_tensor_apply_kernel", "7", 650, 700, 90)
      .slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "1", 800, 150)
      .slice("cpu_op", "aten::stack", "1", 820, 20)
      .step(2, 1000, 500);
  const Diagnosis made = diagnosis_of({trace}, 1);
  ASSERT_EQ(made.ranks.size(), 1U);
  expect_shares(made.ranks[0],
                {{TimeShare::product, 200},
                 {TimeShare::attention, 50},
                 {TimeShare::other, 30},
                 {TimeShare::data, 60},
                 {TimeShare::pipeline, 20},
                 {TimeShare::bubble, 40},
                 {TimeShare::optimizer, 90},
                 {TimeShare::loading, 150}},
                TimeShare::host);
  EXPECT_NEAR(made.ranks[0].hidden_communication_s, 70 * kMicro, 1e-9);
  const TracedOperator* product = nullptr;
  for (const TracedOperator& each : made.ranks[0].operators) {
    if (each.name == "aten::mm") product = &each;
  }
  ASSERT_NE(product, nullptr);
  EXPECT_DOUBLE_EQ(product->flops, 2.0 * 64 * 32 * 16);
  EXPECT_NEAR(product->seconds, 200 * kMicro, 1e-12);
}

TEST(Diagnosis, CallsIdleTimeWithoutAHostUnknown) {
  SmallTrace trace;
  trace.slice("kernel", "nvjet_a", "7", 0, 100).slice("kernel", "nvjet_b", "7", 150, 50);
  const Diagnosis made = diagnosis_of({trace});
  EXPECT_EQ(made.found_by, "whole trace");
  expect_shares(made.ranks[0], {{TimeShare::product, 150}}, TimeShare::unknown);
}

/// A step of a host that computes itself, with gloo. `late`: microseconds of sleep before its all-reduce.
SmallTrace gloo_rank(int rank, double late, double clock, const std::string& more = "") {
  SmallTrace trace(rank);
  const double end = clock + 700;  // of the all-reduce, on every rank
  trace.step(5, clock, 1000)
      .slice("cpu_op", "aten::linear", "1", clock + 10, 200)
      .slice("cpu_op", "aten::addmm", "1", clock + 20, 180, R"("Input Dims":[[8],[4,16],[16,8]])")
      .slice("cpu_op", "aten::gelu", "1", clock + 210 + late, 90);
  const double begin = clock + 320 + late;
  trace.slice("cpu_op", "c10d::allreduce_", "1", begin, 10)
      .slice("cpu_op", "gloo:all_reduce", "2", begin + 5, end - begin - 5, R"("Input Dims":[[1024]])")
      .slice("cpu_op", "Optimizer.step#SGD.step", "1", clock + 720, 100);
  if (!more.empty()) trace.slice("cpu_op", more, "1", clock + 830, 150);
  return trace;
}

TEST(Diagnosis, SharesTheTimeOfAHostThatComputesItself) {
  const Diagnosis made = diagnosis_of({gloo_rank(0, 0, 0)});
  expect_shares(made.ranks[0],
                {{TimeShare::product, 200},
                 {TimeShare::other, 90},
                 {TimeShare::optimizer, 100},
                 {TimeShare::data, 380}},
                TimeShare::host);
}

TEST(Diagnosis, NamesTheLateRankWithItsCauseWhateverItsClock) {
  for (const double clock : {0.0, 123'456.0}) {
    const Diagnosis made = diagnosis_of({gloo_rank(0, 0, 0), gloo_rank(1, 150, clock)});
    ASSERT_EQ(made.clocks.matched, 1);
    EXPECT_EQ(made.clocks.offsets[1], -static_cast<std::int64_t>(clock * 1000));
    ASSERT_EQ(made.clocks.waits.size(), 1U);
    EXPECT_EQ(made.clocks.waits[0].waiting, 0);
    EXPECT_EQ(made.clocks.waits[0].late, 1);
    EXPECT_NEAR(made.clocks.waits[0].seconds, 150 * kMicro, 11 * kMicro);
    ASSERT_FALSE(made.findings.empty());
    const auto named = std::find_if(made.findings.begin(), made.findings.end(),
                                    [](const StepFinding& finding) { return finding.rank == 1; });
    ASSERT_NE(named, made.findings.end());
    EXPECT_EQ(named->share, TimeShare::host);
    EXPECT_NEAR(named->seconds, 150 * kMicro, 1e-9);
    EXPECT_THAT(named->cause, HasSubstr("aten::linear"));
  }
}

TEST(Diagnosis, NamesCausesThatAllRanksHave) {
  const Diagnosis copied = diagnosis_of({gloo_rank(0, 0, 0, "aten::clone")});
  bool found = false;
  for (const StepFinding& finding : copied.findings) {
    found |=
        finding.share == TimeShare::other && finding.rank == -1 && finding.cause == "copies (aten::clone)";
    EXPECT_GE(finding.seconds, kLeastFinding * copied.step_s);
  }
  EXPECT_TRUE(found);
}

TEST(Diagnosis, TellsGroupsByDescriptionRanksAndKind) {
  struct Case {
    const char* collective;
    const char* group;
    const char* ranks;
    TimeShare share;
  };
  const Case cases[] = {{"allreduce", "mesh_tp", "[0, 1]", TimeShare::tensor},
                        {"allreduce", "mesh_dp_shard", "[0, 8]", TimeShare::data},
                        {"all_to_allv", "undefined", "[0, 1]", TimeShare::tensor},
                        {"allreduce", "default_pg", "[0, 1]", TimeShare::tensor},
                        {"allreduce", "default_pg", "[0, 2]", TimeShare::data},
                        {"_allgather_base", "EXPERT_MODEL_PARALLEL_GROUP", "[0, 2]", TimeShare::tensor},
                        {"allreduce", "EXPERT_DATA_PARALLEL_GROUP", "[0, 2]", TimeShare::data}};
  for (const Case& each : cases) {
    SmallTrace trace;
    trace.step(0, 0, 100).collective(each.collective, each.group, 10, 50, 64, each.ranks);
    const GroupSizes sizes{2, 1, 1, 1, 2};
    const Diagnosis made = diagnosis_of({trace}, std::nullopt, sizes);
    EXPECT_NEAR(made.time[each.share], 50 * kMicro, 1e-9)
        << each.collective << " " << each.group << each.ranks;
  }
}

TEST(Diagnosis, ChoosesTheMedianStepAndRefusesOthers) {
  SmallTrace trace;
  const double lengths[] = {900, 100, 120, 110, 800};
  double at = 0;
  for (int i = 0; i < 5; ++i) {
    trace.step(10 + i, at, lengths[i]).slice("cpu_op", "aten::mm", "1", at + 1, 50);
    at += lengths[i];
  }
  EXPECT_EQ(diagnosis_of({trace}).step, 13);
  EXPECT_EQ(diagnosis_of({trace}, 12).step, 12);
  EXPECT_THROW(diagnosis_of({trace}, 15), InputError);
  EXPECT_THROW(diagnosis_of({trace, trace}), InputError) << "the same rank twice";
  SmallTrace other(1);
  other.step(99, 0, 10).slice("cpu_op", "aten::mm", "1", 1, 5);
  EXPECT_THROW(diagnosis_of({trace, other}), InputError) << "no common step";
}

}  // namespace
}  // namespace plumbline::diagnosis_test
