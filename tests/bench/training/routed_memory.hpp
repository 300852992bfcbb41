// Memory of a step against the prediction for the actual routing.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "bench/plan/plan.hpp"
#include "tests/bench/training/training_support.hpp"

namespace plumbline::training {

/// Rows of the teacher's experts of one Layout::sender in that step; nothing without such a teacher.
inline std::optional<RoutedRows> teacher_rows(const RunConfig& config, const Schedule& schedule,
                                              const std::vector<RoutedTokens>& routing, int sender) {
  if (!config.distillation.teacher || !config.distillation.teacher->mixture) return std::nullopt;
  return RoutedRows(evaluated_teacher(config), schedule, routing, sender);
}
inline const RoutedRows* or_null(const std::optional<RoutedRows>& rows) {
  return rows ? &*rows : nullptr;
}

/// On every rank, whose rows are others than its neighbours', and after every action of the first ranks.
inline void expect_routed_memory(const RunConfig& config, const StepResult& found) {
  const Schedule schedule = schedule_for(config);
  const Layout layout = config.layout();
  for (int sender = 0; sender < layout.senders(); ++sender) {
    const RoutedRows rows(config, schedule, found.routing, sender);
    const auto of_teacher = teacher_rows(config, schedule, found.teacher_routing, sender);
    const MemoryPrediction predicted =
        predict_memory(config, schedule, MemoryDetail::timeline, rows, or_null(of_teacher));
    for (int rank = 0; rank < layout.world(); ++rank) {
      if (layout.sender(layout.coordinates(rank)) != sender) continue;
      for (int i = 0; i < kCategories; ++i) {
        const auto category = static_cast<Category>(i);
        EXPECT_EQ(predicted.of_rank(rank).peak[category].value,
                  found.memory[static_cast<std::size_t>(rank)].at_peak[category].value)
            << "rank " << rank << " " << name_of(category);
      }
    }
    if (sender > 0) continue;
    for (std::size_t rank = 0; rank < found.samples.size(); ++rank) {
      const auto& expected = predicted.ranks[rank].timeline;
      ASSERT_EQ(expected.size(), found.samples[rank].size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(expected[i], found.samples[rank][i])
            << "pipeline rank " << rank << " action " << to_string(schedule.actions[rank][i]);
      }
    }
  }
}

}  // namespace plumbline::training
