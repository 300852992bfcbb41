// Intervals from the errors of published runs, and changes between two runs, on tables made for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/published/error_intervals.hpp"
#include "analysis/published/run_changes.hpp"
#include "analysis/published/run_respects.hpp"

namespace plumbline {
namespace {

ComparedRow row_with(double published, const std::string& software, Cells settings = {}) {
  ComparedRow row{"run", "step_s", 1.0, published, ""};
  row.traits.software = software;
  row.traits.source = "a page";
  row.traits.settings = std::move(settings);
  return row;
}

ComparedTable table_of(const std::string& name, int rows, double published, const std::string& software) {
  ComparedTable table;
  table.name = name;
  table.rows.assign(static_cast<std::size_t>(rows), row_with(published, software));
  return table;
}

TEST(ErrorIntervals, EveryTableCountsAlike) {
  const std::vector<ComparedTable> tables = {table_of("one", 1, 0.8, "a"), table_of("many", 18, 1.3, "a"),
                                             table_of("other", 3, 1.0, "b")};
  const auto interval = interval_like(tables, row_with(1, "a").traits, "step_s");
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->rows, 22) << "19 rows of the same software are not enough";
  EXPECT_DOUBLE_EQ(interval->low, 0.8) << "one row of a table of its own is a third of all";
  EXPECT_DOUBLE_EQ(interval->high, 1.3);
}

TEST(ErrorIntervals, RestOnTheSameSoftwareAndKindWhereThereIsEnough) {
  std::vector<ComparedTable> tables = {table_of("a", kEnoughRows, 1.1, "a"), table_of("b", 40, 2, "b"),
                                       table_of("mixtures", 40, 3, "a")};
  for (ComparedRow& row : tables[2].rows) row.traits.mixture = true;
  const auto interval = interval_like(tables, row_with(1, "a").traits, "step_s");
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->rows, kEnoughRows);
  EXPECT_DOUBLE_EQ(interval->high, 1.1);
  EXPECT_FALSE(interval_like(tables, row_with(1, "a").traits, "peak_bytes"));
  const auto without = interval_like(tables, row_with(1, "a").traits, "step_s", "a");
  ASSERT_TRUE(without);
  EXPECT_DOUBLE_EQ(without->low, 2) << "the table left out does not count";
}

TEST(ErrorIntervals, TablesAreHeldAgainstTheOthers) {
  const std::vector<ComparedTable> tables = {table_of("one", 4, 0.9, "a"), table_of("two", 4, 1.2, "a"),
                                             table_of("three", 4, 1.0, "a")};
  const std::vector<HeldOutTable> held = hold_out_tables(tables, "step_s");
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(held[0].inside, 0) << "0.9 is below 1.0 to 1.2";
  EXPECT_EQ(held[1].inside, 0) << "1.2 is above 0.9 to 1.0";
  EXPECT_EQ(held[2].inside, 4);
  EXPECT_DOUBLE_EQ(held[2].width, 1.2 - 0.9);
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
}  // namespace plumbline
