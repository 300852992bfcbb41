#include "tests/bench/training/support/predicted_step.hpp"

#include <gtest/gtest.h>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline::training {

std::optional<RoutedRows> teacher_rows(const RunConfig& config, const Schedule& schedule,
                                       const std::vector<RoutedTokens>& routing, int sender) {
  if (!config.distillation.teacher || !config.distillation.teacher->mixture) return std::nullopt;
  return RoutedRows(evaluated_teacher(config), schedule, routing, sender);
}
const RoutedRows* or_null(const std::optional<RoutedRows>& rows) {
  return rows ? &*rows : nullptr;
}

namespace {

void expect_peak(const MemoryPrediction& predicted, const StepResult& found, int rank) {
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    EXPECT_EQ(predicted.of_rank(rank).peak[category].value,
              found.memory[static_cast<std::size_t>(rank)].at_peak[category].value)
        << "rank " << rank << " " << name_of(category);
  }
}

void expect_timelines(const MemoryPrediction& predicted, const Schedule& schedule, const StepResult& found) {
  for (std::size_t rank = 0; rank < found.samples.size(); ++rank) {
    const auto& expected = predicted.ranks[rank].timeline;
    ASSERT_EQ(expected.size(), found.samples[rank].size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i], found.samples[rank][i])
          << "pipeline rank " << rank << " action " << to_string(schedule.actions[rank][i]);
    }
  }
}

}  // namespace

void expect_memory(const RunConfig& config, const StepResult& found) {
  const Schedule schedule = schedule_for(config);
  const MemoryPrediction predicted = predict_memory(config, schedule, MemoryDetail::timeline);
  ASSERT_EQ(predicted.ranks.size() * static_cast<std::size_t>(predicted.ranks_alike), found.memory.size());
  for (int rank = 0; rank < config.parallel.world_size; ++rank) expect_peak(predicted, found, rank);
  expect_timelines(predicted, schedule, found);
}

void expect_traffic(const RunConfig& config, const StepResult& found, int rank) {
  const Traffic predicted = predict_traffic(config, schedule_for(config))[static_cast<std::size_t>(rank)];
  EXPECT_TRUE(same(predicted, found.traffic)) << "rank " << rank;
}

void expect_routed_memory(const RunConfig& config, const StepResult& found) {
  const Schedule schedule = schedule_for(config);
  const Layout layout = config.layout();
  for (int sender = 0; sender < layout.senders(); ++sender) {
    const RoutedRows rows(config, schedule, found.routing, sender);
    const auto of_teacher = teacher_rows(config, schedule, found.teacher_routing, sender);
    const MemoryPrediction predicted =
        predict_memory(config, schedule, MemoryDetail::timeline, rows, or_null(of_teacher));
    for (int rank = 0; rank < layout.world(); ++rank) {
      if (layout.sender(layout.coordinates(rank)) == sender) expect_peak(predicted, found, rank);
    }
    if (sender == 0) expect_timelines(predicted, schedule, found);
  }
}

void expect_routed_traffic(const RunConfig& config, const StepResult& found, int rank) {
  const Schedule schedule = schedule_for(config);
  const int sender = config.layout().sender(config.layout().coordinates(rank));
  const RoutedRows rows(config, schedule, found.routing, sender);
  const auto of_teacher = teacher_rows(config, schedule, found.teacher_routing, sender);
  EXPECT_TRUE(same(predict_traffic(config, schedule, rank, rows, or_null(of_teacher)), found.traffic))
      << "rank " << rank;
}

}  // namespace plumbline::training
