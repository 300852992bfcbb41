// A pipeline with slower ranks: closed forms, and the lengthened costs of each stage.
#include "analysis/predict/slower_ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "schedules/generators.hpp"

namespace plumbline::slower_ranks_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kRanks = 4;
constexpr int kMicrobatches = 8;

Schedule with_optimizer() {
  Schedule schedule = one_f_one_b(kRanks, kMicrobatches);
  for (int rank = 0; rank < kRanks; ++rank)
    schedule.actions[static_cast<std::size_t>(rank)].push_back(
        {ActionType::optimizer, false, static_cast<std::uint16_t>(rank), 0});
  return schedule;
}

Costs costs() {
  Costs costs = uniform_costs(kRanks, {.forward = {1}, .backward = {2}});
  costs.optimizer = {5};
  return costs;
}

double step_of(const std::vector<double>& longer) {
  const Schedule schedule = with_optimizer();
  return simulate_makespan(schedule, with_slower_ranks(costs(), schedule, longer)).value;
}

TEST(SlowerRanks, AStepIsAsLongAsTheSlowestRankMakesIt) {
  constexpr double kBusy = kMicrobatches * 3;  // of a rank that is as quick as predicted
  EXPECT_DOUBLE_EQ(step_of({1, 1, 1, 1}), kBusy + 3 * 3 + 5);
  EXPECT_DOUBLE_EQ(step_of({3, 3, 3, 3}), 3 * (kBusy + 3 * 3 + 5));
  // The first rank is never without work. The last one waits for the first forward, and with its optimizer
  // for the last backward: the norm of all gradients.
  EXPECT_DOUBLE_EQ(step_of({3, 1, 1, 1}), 3 * kBusy + 3 * 5);
  EXPECT_DOUBLE_EQ(step_of({1, 1, 1, 3}), 3 * 1 + 3 * kBusy + 3 * 2 + 3 * 5);
}

TEST(SlowerRanks, EveryActionOfARanksStagesIsMadeLonger) {
  Schedule schedule;
  schedule.ranks = 2;
  schedule.rank_of_stage = {0, 1, 1, 0};
  Costs before;
  before.stages.resize(4);
  for (StageCosts& stage : before.stages)
    stage = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}};
  before.transfer = {15};
  before.reduce_gradients = {16};
  before.reduce_embedding = {17};
  before.optimizer = {18};
  const Costs after = with_slower_ranks(before, schedule, {1, 2});
  for (const std::size_t same : {0U, 3U}) {
    EXPECT_EQ(after.stages[same].forward.value, 1);
    EXPECT_EQ(after.stages[same].optimizer.value, 14);
  }
  for (const std::size_t slow : {1U, 2U}) {
    const StageCosts& stage = after.stages[slow];
    const double all[] = {
        stage.forward.value,         stage.backward.value,        stage.backward_input.value,
        stage.backward_weight.value, stage.teacher_forward.value, stage.vocab_forward.value,
        stage.vocab_backward.value,  stage.input_forward.value,   stage.input_backward.value,
        stage.first_forward.value,   stage.last_backward.value};
    EXPECT_THAT(all, testing::ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22));
    EXPECT_EQ(stage.reduce_gradients.value + after.reduce_gradients.value, 2 * (12 + 16));
    EXPECT_EQ(stage.reduce_embedding.value + after.reduce_embedding.value, 2 * (13 + 17));
    EXPECT_EQ(stage.optimizer.value + after.optimizer.value, 2 * (14 + 18));
  }
  EXPECT_EQ(after.transfer.value, 15);
}

TEST(SlowerRanks, NeedAFactorEach) {
  EXPECT_THAT(
      [] {
        (void)step_of({1, 1, 1});
      },
      ThrowsMessage<InputError>(HasSubstr("found factors of 3 pipeline ranks, expected 4")));
}

}  // namespace
}  // namespace plumbline::slower_ranks_test
