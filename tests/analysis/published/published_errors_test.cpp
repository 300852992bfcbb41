// Intervals from the errors of comparable runs, and changes between two runs, on tables made for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/run_changes.hpp"
#include "analysis/published/run_respects.hpp"

namespace plumbline::published_errors_test {
namespace {

RunKind kind(const std::string& software, int gpus = 8, double peak = 1000) {
  return {software, "gpu", false, gpus, 4096, peak, 16};
}
ComparedRow row_with(double published, const std::string& software, Cells settings = {}) {
  ComparedRow row{"run", "step_s", 1.0, published, ""};
  row.traits.software = software;
  row.traits.kind = kind(software);
  row.traits.source = "page, 2026";
  row.traits.settings = std::move(settings);
  return row;
}

void add(std::vector<KnownRun>& runs, int count, const std::string& origin, double ratio, const RunKind& of) {
  for (int i = 0; i < count; ++i) runs.push_back({origin, "step_s", of, ratio});
}

TEST(Resemblance, FallsWithEveryDifference) {
  const RunKind run = kind("megatron-core-2025");
  EXPECT_DOUBLE_EQ(resemblance(run, run), 1);
  double last = 1;
  for (const RunKind& other :
       {kind("megatron-core-2024"), kind("megatron-core-2023"), kind("torchtitan-2025"),
        kind("torchtitan-2025", 512), kind("torchtitan-2025", 512, 125)}) {
    EXPECT_LT(resemblance(run, other), last);
    EXPECT_DOUBLE_EQ(resemblance(run, other), resemblance(other, run));
    last = resemblance(run, other);
  }
  RunKind narrow = run;
  narrow.bits = 8;
  EXPECT_NEAR(resemblance(run, narrow), 0.607, 0.001);
}

TEST(ComparableRuns, EveryOriginWeighsAsItsNearestRun) {
  std::vector<KnownRun> known;
  add(known, 1, "one", 0.8, kind("a"));
  add(known, 40, "many", 1.3, kind("a"));
  add(known, 10, "other", 1.0, kind("a"));
  add(known, 50, "far", 5, kind("b", 4096, 60));
  const auto interval = ComparableRuns(known, kind("a"), "step_s").interval();
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->rows, 51);
  EXPECT_EQ(interval->origins, 3);
  EXPECT_DOUBLE_EQ(interval->low, 0.8) << "one run is a third of all";
  EXPECT_DOUBLE_EQ(interval->high, 1.3);
  EXPECT_FALSE(ComparableRuns(known, kind("a"), "step_s", "other").interval()) << "two origins are left";
  EXPECT_FALSE(ComparableRuns(known, kind("a"), "peak_bytes").interval());
  RunKind mixture = kind("a");
  mixture.mixture = true;
  EXPECT_EQ(ComparableRuns(known, mixture, "step_s").nearest(), nullptr);
  EXPECT_EQ(ComparableRuns(known, kind("b", 4096, 60), "step_s").nearest()->origin, "far");
}

TEST(ComparableRuns, KnowWhatShareWouldNotFit) {
  std::vector<KnownRun> known;
  add(known, 5, "one", 0.9, kind("a"));
  add(known, 5, "two", 1.1, kind("a"));
  add(known, 5, "three", 1.3, kind("a"));
  for (KnownRun& run : known) run.quantity = "peak_bytes";
  const ComparableRuns peaks(known, kind("a"), "peak_bytes");
  Fit fit;
  fit.tensors = {100};
  fit.needed = {110};
  fit.limit = {130};  // 120 for tensors
  EXPECT_NEAR(peaks.share_beyond(fit), 1.0 / 3, 1e-12);
  fit.limit = {0};
  EXPECT_EQ(peaks.share_beyond(fit), 0);
}

TEST(ComparableRuns, RowsAreHeldAgainstOtherOrigins) {
  std::vector<KnownRun> known;
  add(known, 10, "page", 2, kind("a"));
  for (const char* origin : {"one", "two", "three"}) add(known, 10, origin, 1, kind("a"));
  ComparedTable table{"table", {row_with(2, "a"), row_with(1, "a")}, {}, {}};
  EXPECT_EQ(hold_out_tables({table}, known, "step_s")[0].inside, 1);
  table.rows[0].spread = {1.0, 2.5};
  const HeldOutTable held = hold_out_tables({table}, known, "step_s")[0];
  EXPECT_EQ(held.inside, 2) << "a row that leaves settings open spans them";
  EXPECT_EQ(held.rows, 2);
  EXPECT_DOUBLE_EQ(held.width, 0.75);
}

TEST(Origins, AreRepositoriesAndPapers) {
  const std::pair<const char*, const char*> origins[] = {{"NVIDIA/NeMo@a2c4cc8ee6 docs/x.md", "NVIDIA/NeMo"},
                                                         {"MLPerf Training v4.0, Dell", "MLPerf"},
                                                         {"Megatron-Bridge, ep_overlap", "Megatron-Bridge"},
                                                         {"arXiv:2411.05288 table 5", "arXiv:2411.05288"}};
  for (const auto& [source, origin] : origins) EXPECT_EQ(origin_of(source), origin);
  EXPECT_TRUE(is_same_origin("Megatron-Bridge", "NVIDIA-NeMo/Megatron-Bridge"));
  EXPECT_FALSE(is_same_origin("Bridge", "NVIDIA-NeMo/Megatron-Bridge"));
}

TEST(RunChanges, RowsThatDifferInOneRespectAreCompared) {
  const Cells base = {{"model", "m"}, {"precision", "bf16"}, {"label", "x"}};
  Cells recomputed = base;
  recomputed["recompute_granularity"] = "full";
  recomputed["recompute_num_layers"] = "1";
  Cells eight_bits = base;
  eight_bits.insert_or_assign("precision", "fp8");
  eight_bits["fp8_recipe"] = "delayed";
  Cells both = recomputed;
  both.insert_or_assign("precision", "fp8");
  both["seq_length"] = "8";
  ComparedTable table;
  table.rows = {row_with(2, "a", base), row_with(3, "a", recomputed), row_with(1, "a", eight_bits),
                row_with(5, "a", both)};
  table.rows[1].predicted = 1.4;
  table.rows[2].predicted = 1.1;  // slower in eight bits: the wrong direction
  const std::vector<RunChange> changes = run_changes({table});
  ASSERT_EQ(changes.size(), 2u) << "two respects, and what differs in several is none";
  const std::vector<ChangeErrors> errors = errors_of_changes(changes);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].respect, "precision");
  EXPECT_EQ(errors[0].scored, 1);
  EXPECT_EQ(errors[0].right, 0);
  EXPECT_EQ(errors[1].respect, "recomputation");
  EXPECT_EQ(errors[1].right, 1);
  EXPECT_NEAR(errors[1].median, 1 - 1.4 / 1.5, 1e-12);
}

TEST(RunChanges, AnotherSourceIsAnotherRun) {
  ComparedTable table;
  table.rows = {row_with(2, "a", {{"precision", "bf16"}}), row_with(1, "a", {{"precision", "fp8"}})};
  EXPECT_EQ(run_changes({table}).size(), 1u);
  table.rows[1].traits.source = "another page";
  EXPECT_TRUE(run_changes({table}).empty());
}

TEST(RunChanges, LayoutsOfOneTrainingHaveOneText) {
  const Cells one = {{"model", "m"}, {"tensor_model_parallel_size", "8"}, {"step_s", "1"}};
  const Cells other = {{"model", "m"}, {"tensor_model_parallel_size", "4"}, {"micro_batch_size", "2"}};
  EXPECT_EQ(same_training(one), same_training(other));
  EXPECT_NE(same_training(one), same_training({{"model", "n"}}));
}

}  // namespace
}  // namespace plumbline::published_errors_test
