// Verdict of `compare` on the memory of a cell: equal to the byte, or the first difference.
#include "bench/show/views/memory_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/record/record_support.hpp"

namespace plumbline::memory_comparison_test {
namespace {

using testing::HasSubstr;

Record agreeing() {
  Record record = sample_record("a");
  record.prediction->memory = record.measurement->memory;
  record.prediction->memory.ranks[0].at = "0F1";
  return record;
}

CellTimelines timelines_of(std::size_t actions) {
  Timeline timeline;
  timeline.trace.ranks.resize(2);
  timeline.memory.resize(2);
  for (std::uint32_t i = 0; i < actions; ++i) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto stage = static_cast<std::uint16_t>(rank);
      timeline.trace.ranks[rank].push_back({{ActionType::forward, false, stage, i}, {1.0 * i}, {i + 1.0}});
      MemorySample sample;
      sample.peak[Category::activations] = {100 + i};
      timeline.memory[rank].push_back(sample);
    }
  }
  return {"a", timeline, timeline};
}

TEST(MemoryComparison, SaysEqualOrTheFirstDifference) {
  EXPECT_EQ(memory_verdict(agreeing(), std::nullopt), "equal to the byte on 2 ranks");
  CellTimelines timelines = timelines_of(5);
  EXPECT_EQ(memory_verdict(agreeing(), timelines),
            "equal to the byte on 2 ranks and during and after 10 actions");
  timelines.measured->memory[1][3].after[Category::workspace] = {7};
  EXPECT_EQ(
      memory_verdict(agreeing(), timelines),
      "first difference: pipeline rank 1, after action 4 (1F3): workspace: predicted 0 bytes, measured 7");
  timelines.measured->memory[1][2].peak[Category::activations] = {101};
  EXPECT_THAT(memory_verdict(agreeing(), timelines),
              HasSubstr("at the peak of action 3 (1F2): activations: predicted 102 bytes, measured 101"));
  timelines.measured = timelines_of(4).measured;
  EXPECT_THAT(memory_verdict(agreeing(), timelines), HasSubstr("5 actions predicted, 4 measured"));

  Record record = agreeing();
  record.prediction->memory.ranks[1].bytes[Category::logits].value += 3;
  EXPECT_THAT(memory_verdict(record, std::nullopt),
              HasSubstr("rank 1 at its peak, logits: predicted 5000003"));
  record.prediction->memory.ranks.pop_back();
  EXPECT_EQ(memory_verdict(record, std::nullopt), "1 ranks predicted, 2 measured");
  record.prediction.reset();
  EXPECT_EQ(memory_verdict(record, std::nullopt), "");
}

TEST(MemoryComparison, TableShowsCategoriesActionAndHolders) {
  Record record = agreeing();
  record.measurement->memory.peak_rank = 1;
  record.prediction->memory.ranks[1].bytes[Category::logits].value += 3;
  const std::string table = memory_table(record);
  for (const char* part : {"rank 1, MiB", "peak during", "1F7", "activations", "3.815", "+3 bytes", "total",
                           "3.815 MiB in 8 tensors: qkv (activations)"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
  record.measurement->memory.peak_rank = 9;  // a record from anywhere
  EXPECT_EQ(memory_table(record), "");
}

}  // namespace
}  // namespace plumbline::memory_comparison_test
