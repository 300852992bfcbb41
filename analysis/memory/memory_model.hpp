// Bytes that every rank allocates, by category, derived from the published description of a rank
// (bench/training/README.md) and the schedule alone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/memory/memory_walk.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/memory/rank_memory.hpp"
#include "analysis/step/step_model.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

struct MemoryPrediction {
  std::vector<RankMemory> ranks;  // by pipeline rank
  int ranks_alike = 1;            // world ranks of each: its tensor and data ranks
  Bytes peak;                     // largest total of any rank
  int peak_rank = 0;              // the first world rank that reaches it
  const RankMemory& of_rank(int world_rank) const {
    return ranks.at(static_cast<std::size_t>(world_rank / ranks_alike));
  }
  bool fits(Bytes budget) const { return budget.value == 0 || peak <= budget; }
};

/// Exact allocated bytes (elements × size, no rounding) of every rank over one training step. Throws
/// InputError when the schedule has an action whose memory the description does not cover. Timelines need a
/// schedule written out whole.
MemoryPrediction predict_memory(const StepModel& model, const RepeatedSchedule& step,
                                MemoryDetail detail = MemoryDetail::peaks);
MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step,
                                MemoryDetail detail = MemoryDetail::peaks);
/// Memory of the ranks with one Layout::sender under a known routing. `rows`: rows under that routing, for
/// MoE layers whose experts are spread over ranks or drop rows. Without it every expert has equally many
/// rows. `teacher`: the same for evaluated_teacher(); without it the teacher's rows are even.
MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail,
                                const RoutedRows& rows, const RoutedRows* teacher = nullptr);
/// The memory of steps whose routing is known, one routing after the other.
class RoutedMemory {
 public:
  /// A reference is kept.
  explicit RoutedMemory(const StepModel& model);
  /// Prediction for all ranks: those of a pipeline rank, which differ by Layout::sender, one after the other.
  /// `teacher`: the routing of evaluated_teacher(); empty: its rows are even. Throws InputError if a routing
  /// lacks a copy, layer or micro-batch.
  MemoryPrediction of(std::span<const RoutedTokens> routing,
                      std::span<const RoutedTokens> teacher = {}) const;

 private:
  const StepModel& model_;
  std::optional<RunConfig> evaluated_;  // a teacher whose rows depend on its routing
  std::optional<StepModel> teacher_;
  RepeatedSchedule step_;
  MemoryPlan plan_;
};
/// Peak memory of a configuration without a teacher, one of many that share this step. `plan`:
/// memory_plan(step, false); `profiles`: known profiles by kind of stage.
MemoryPrediction predict_memory(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan& plan,
                                const std::vector<StageProfiles*>& profiles);
/// Peak memory of one pipeline rank, as if no receive were posted ahead, which never takes more. Only
/// profiles of its stages are read.
RankMemory predict_rank_memory(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan& plan,
                               const std::vector<StageProfiles*>& profiles, int rank);

}  // namespace plumbline
