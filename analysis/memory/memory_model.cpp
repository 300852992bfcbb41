#include "analysis/memory/memory_model.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/memory/host_memory.hpp"
#include "analysis/memory/rank_walk.hpp"
#include "analysis/memory/receives_ahead.hpp"
#include "analysis/step/stage_shapes.hpp"

namespace plumbline {
namespace {

/// Profiles known so far within one prediction, in the form that WalkedProfiles needs.
struct KnownProfiles {
  explicit KnownProfiles(const StepModel& model)
      : profiles(model.teachers.empty() ? model.kinds.first_stage.size() : model.shapes().size()) {
    all.reserve(profiles.size());
    for (StageProfiles& each : profiles) all.push_back(&each);
  }
  KnownProfiles(const KnownProfiles&) = delete;
  KnownProfiles& operator=(const KnownProfiles&) = delete;

  std::vector<StageProfiles> profiles;
  std::vector<StageProfiles*> all;
};

MemoryPrediction walk_all(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan& plan,
                          const std::vector<StageProfiles*>& known, MemoryDetail detail,
                          const WalkedRows& rows = {}) {
  const Schedule& schedule = step.once;
  WalkedProfiles profiles(model, known);
  const Layout& layout = model.layout;
  const StageKinds& kinds = model.kinds;
  const std::vector<StageShape>& teachers = model.teachers;
  MemoryPrediction prediction;
  prediction.ranks_alike = layout.tensor * layout.data;
  prediction.ranks.resize(static_cast<std::size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankMemory& memory = prediction.ranks[at];
    memory.rank = layout.rank_of({0, 0, rank});
    memory.pipeline_rank = rank;
    const int alike = teachers.empty() ? kinds.first_rank[kinds.of_rank[at]] : rank;
    if (alike < rank) {
      memory.held = prediction.ranks[static_cast<std::size_t>(alike)].held;
    } else {
      std::vector<StageShape> taught;
      for (const std::size_t stage : kinds.stages_held[at]) {
        if (!teachers.empty()) taught.push_back(teachers[stage]);
      }
      memory.held = held_bytes(kinds.on_rank(rank), model.config, taught);
    }
    memory.host = host_peak(kinds.shapes, step, rank, rows.student);
    if (model.config.offload.states()) memory.host += framework_host_bytes(kinds.on_rank(rank));
    walk_rank(model, step, plan.ranks[at], profiles, detail, rows, memory);
    if (memory.peak.total() <= prediction.peak) continue;
    prediction.peak = memory.peak.total();
    prediction.peak_rank = memory.rank;
  }
  return prediction;
}

bool receives_ahead(const StepModel& model) {
  return !model.shapes().empty() && model.any().overlap.receives_ahead;
}

MemoryPrediction predicted(const StepModel& model, const RepeatedSchedule& step, MemoryDetail detail,
                           const WalkedRows& rows) {
  const bool timeline = detail == MemoryDetail::timeline;
  if (timeline && step.repeats())
    throw std::logic_error("a timeline of memory needs every action of the step");
  KnownProfiles known(model);
  const bool by_action = timeline || rows.student != nullptr;
  const bool teacher = !model.teachers.empty();
  if (!receives_ahead(model))
    return walk_all(model, step, memory_plan(step, teacher, by_action), known.all, detail, rows);
  const bool pairs = model.any().overlap.pairs;
  const RepeatedSchedule posted = with_receives_ahead(step, pairs);
  MemoryPrediction prediction =
      walk_all(model, posted, memory_plan(posted, teacher, by_action), known.all, detail, rows);
  for (std::size_t rank = 0; timeline && rank < prediction.ranks.size(); ++rank)
    in_order_of_actions(step.once.actions[rank], pairs, prediction.ranks[rank].timeline);
  return prediction;
}

}  // namespace

MemoryPrediction predict_memory(const StepModel& model, const RepeatedSchedule& step, MemoryDetail detail) {
  return predicted(model, step, detail, {});
}

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail) {
  return predict_memory(StepModel(config, step.once), step, detail);
}

MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail,
                                const RoutedRows& rows, const RoutedRows* teacher) {
  return predicted(StepModel(config, schedule), schedule, detail, {&rows, teacher});
}

RoutedMemory::RoutedMemory(const StepModel& model) : model_(model), step_(model.schedule) {
  if (receives_ahead(model)) step_ = with_receives_ahead(step_, model.any().overlap.pairs);
  plan_ = memory_plan(step_, !model.teachers.empty(), true);
  if (!model.config.spreads_teacher_experts()) return;
  evaluated_ = evaluated_teacher(model.config);
  teacher_.emplace(*evaluated_, model.schedule);
}

MemoryPrediction RoutedMemory::of(std::span<const RoutedTokens> routing,
                                  std::span<const RoutedTokens> teacher) const {
  const KnownProfiles known(model_);
  const Layout& layout = model_.layout;
  MemoryPrediction all;
  const int senders = layout.senders();
  all.ranks_alike = layout.tensor * layout.data / senders;
  all.ranks.resize(static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(senders));
  for (int sender = 0; sender < senders; ++sender) {
    const RoutedRows rows(model_, routing, sender);
    std::optional<RoutedRows> taught;
    if (teacher_ && !teacher.empty()) taught.emplace(*teacher_, teacher, sender);
    MemoryPrediction copy =
        walk_all(model_, step_, plan_, known.all, MemoryDetail::peaks, {&rows, taught ? &*taught : nullptr});
    for (RankMemory& rank : copy.ranks) {
      rank.rank += sender * all.ranks_alike;
      if (rank.peak.total() > all.peak) {
        all.peak = rank.peak.total();
        all.peak_rank = rank.rank;
      }
      const auto place = static_cast<std::size_t>(rank.pipeline_rank) * static_cast<std::size_t>(senders);
      all.ranks[place + static_cast<std::size_t>(sender)] = std::move(rank);
    }
  }
  return all;
}

MemoryPrediction predict_memory(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan& plan,
                                const std::vector<StageProfiles*>& profiles) {
  if (!receives_ahead(model)) return walk_all(model, step, plan, profiles, MemoryDetail::peaks);
  const RepeatedSchedule posted = with_receives_ahead(step, model.any().overlap.pairs);
  return walk_all(model, posted, memory_plan(posted, false), profiles, MemoryDetail::peaks);
}

RankMemory predict_rank_memory(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan& plan,
                               const std::vector<StageProfiles*>& profiles, int rank) {
  WalkedProfiles walked(model, profiles);
  RankMemory memory;
  memory.rank = model.layout.rank_of({0, 0, rank});
  memory.pipeline_rank = rank;
  memory.held = held_bytes(model.kinds.on_rank(rank), model.config);
  walk_rank(model, step, plan.ranks[static_cast<std::size_t>(rank)], walked, MemoryDetail::peaks, {}, memory);
  return memory;
}

}  // namespace plumbline
