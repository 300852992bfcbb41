// Handwritten steps: every moment in its category, late ranks and causes by name.
#include "analysis/diagnose/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
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

/// Two all-reduces; each rank is late for one of them, and waits in the other. The first rank waits longer.
SmallTrace alternating_rank(int rank) {
  SmallTrace trace(rank);
  const double sleeps[2] = {rank == 0 ? 60.0 : 0.0, rank == 0 ? 0.0 : 290.0};
  const double ends[2] = {370, 1300};
  trace.step(2, 0, 1500);
  for (int i = 0; i < 2; ++i) {
    const double begin = 700 * i + 300 + sleeps[i];
    trace.slice("cpu_op", "aten::mm", "1", 700 * i, 300)
        .slice("cpu_op", "gloo:all_reduce", "2", begin, ends[i] - begin, R"("Input Dims":[[9]])");
  }
  return trace;
}

TEST(Diagnosis, DoesNotNameWaitingAsACauseOfARank) {
  const Diagnosis made = diagnosis_of({alternating_rank(0), alternating_rank(1)});
  EXPECT_EQ(made.clocks.waits.size(), 2U);
  for (const StepFinding& finding : made.findings) EXPECT_NE(finding.share, TimeShare::data) << finding.cause;
}

/// A rank with a copy of `copy` us, its operators `slower` times as long, then an all-reduce until 1400 us.
SmallTrace working_rank(int rank, double copy, double slower) {
  SmallTrace trace(rank);
  trace.step(2, 0, 1500)
      .slice("cpu_op", "aten::mm", "1", 0, 300 * slower)
      .slice("cpu_op", "aten::gelu", "1", 300 * slower, 100 * slower)
      .slice("cpu_op", "aten::copy_", "1", 400 * slower, copy);
  const double begin = 400 * slower + copy;
  return trace.slice("cpu_op", "gloo:all_reduce", "2", begin, 1400 - begin, R"("Input Dims":[[9]])");
}

/// Five steps of two ranks, the second late in steps from `first` to `last`.
std::vector<SmallTrace> five_steps(std::int64_t first, std::int64_t last) {
  std::vector<SmallTrace> ranks;
  for (const int rank : {0, 1}) {
    SmallTrace& trace = ranks.emplace_back(rank);
    for (int step = 0; step < 5; ++step) {
      const double sleep = rank == 1 && step >= first && step <= last ? 200 : 0;
      const double at = 1000.0 * step;
      trace.step(step, at, 1000)
          .slice("cpu_op", "aten::mm", "1", at, 400)
          .slice("cpu_op", "gloo:all_reduce", "2", at + 400 + sleep, 250 - sleep, R"("Input Dims":[[9]])");
    }
  }
  return ranks;
}

TEST(Diagnosis, NamesALateRankOnlyIfItIsLateInMostSteps) {
  const auto names_it = [](const Diagnosis& made) {
    return std::any_of(made.findings.begin(), made.findings.end(),
                       [](const StepFinding& finding) { return finding.rank == 1; });
  };
  const std::int64_t chosen = diagnosis_of(five_steps(9, 0)).step;
  EXPECT_FALSE(names_it(diagnosis_of(five_steps(9, 0))));
  const Diagnosis once = diagnosis_of(five_steps(chosen, chosen));
  EXPECT_FALSE(names_it(once));
  ASSERT_FALSE(once.notes.empty());
  EXPECT_THAT(once.notes.front(), HasSubstr("not in most steps: 0.0002 s, rank 1"));
  EXPECT_TRUE(names_it(diagnosis_of(five_steps(chosen, chosen), chosen))) << "a step that is asked for";
  EXPECT_TRUE(names_it(diagnosis_of(five_steps(0, 4))));
}

TEST(Diagnosis, TellsAnExtraOperatorFromASlowRank) {
  struct Case {
    double copy, slower;
    std::vector<std::pair<const char*, double>> causes;  // part of the text and microseconds
  };
  const Case cases[] = {{10, 1, {}},
                        {310, 1, {{"aten::copy_ takes", 300}}},
                        {15, 1.5, {{"its operators take 1.50 times", 205}}},
                        {315, 1.5, {{"aten::copy_ takes", 300}, {"its operators take 1.50 times", 205}}}};
  for (const Case& each : cases) {
    const Diagnosis made = diagnosis_of({working_rank(0, 10, 1), working_rank(1, each.copy, each.slower)});
    std::size_t found = 0;
    for (const StepFinding& finding : made.findings) {
      if (finding.rank != 1) continue;
      ASSERT_LT(found, each.causes.size()) << finding.cause;
      EXPECT_THAT(finding.cause, HasSubstr(each.causes[found].first));
      EXPECT_NEAR(finding.seconds, each.causes[found].second * kMicro, 1e-9);
      ++found;
    }
    EXPECT_EQ(found, each.causes.size());
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

TEST(Diagnosis, ReadsTheMeasuredRanksOfAnOwnTrace) {
  std::string events;
  const auto name = [&](int process, int thread, const char* what, const std::string& text) {
    events += fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":"{}"}}}},)", process,
                          thread, what, text);
  };
  const auto slice = [&](int process, int thread, const char* category, int begin, int duration) {
    events += fmt::format(R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":"x","ts":{},"dur":{}}},)",
                          process, thread, category, begin, duration);
  };
  for (const int process : {0, 1}) {
    name(process, 0, "process_name", process == 0 ? "predicted" : "measured");
    name(process, 0, "thread_name", "rank 0");
    name(process, 1000000, "thread_name", "rank 0 messages");
    name(process, 2000000, "thread_name", "rank 0 tensor group");
    name(process, 1, "thread_name", "rank 1");
  }
  slice(0, 0, "F", 0, 5000);  // predicted: not of interest
  slice(1, 0, "F", 0, 300);
  slice(1, 2000000, "tensor", 100, 50);
  slice(1, 2000000, "exposed", 120, 30);
  slice(1, 1000000, "RECV_B", 300, 200);
  slice(1, 0, "B", 500, 400);
  slice(1, 0, "OPT", 900, 100);
  slice(1, 1, "F", 200, 100);
  events.pop_back();
  const Diagnosis made = diagnose(
      traces_of({R"({"distributedInfo":{"backend":"plumbline"},"traceEvents":[)" + events + "]}"}), {}, {});
  ASSERT_EQ(made.ranks.size(), 2U);
  expect_shares(made.ranks[0],
                {{TimeShare::other, 670}, {TimeShare::tensor, 30}, {TimeShare::optimizer, 100}},
                TimeShare::bubble);
  expect_shares(made.ranks[1], {{TimeShare::other, 100}}, TimeShare::bubble);
  EXPECT_NEAR(made.step_s, 1000 * kMicro, 1e-12);
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
