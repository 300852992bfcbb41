#include "analysis/memory/memory_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "analysis/memory/host_memory.hpp"
#include "analysis/memory/receives_ahead.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

void add(MemoryBreakdown& to, const MemoryBreakdown& what) {
  for (std::size_t c = 0; c < to.categories.size(); ++c) to.categories[c] += what.categories[c];
}

/// Profiles of all stages' actions.
class Profiles {
 public:
  /// `profiles`: by kind of stage, or, with `teachers`, by stage. References are kept.
  Profiles(const StageKinds& kinds, const std::vector<StageShape>& teachers,
           const std::vector<StageProfiles*>& profiles)
      : kinds_(kinds), teachers_(teachers), profiles_(profiles) {}

  /// Until the next call. `with_extra` as of action_profile.
  const StageProfiles::Entry& of(const Action& action, bool with_extra) {
    const bool teacher = payload_of(action.type) == Payload::teacher;
    if (teacher && teachers_.empty()) {
      throw InputError(
          fmt::format("schedule: found action {} without a teacher, expected teacher: in the "
                      "configuration",
                      to_string(action)));
    }
    const StageShape& shape = teacher ? teachers_[action.stage] : kinds_.shapes[action.stage];
    const std::size_t known = teachers_.empty() ? kinds_.of_stage[action.stage] : action.stage;
    return profiles_[known]->of(shape, action.type, with_extra);
  }

 private:
  const StageKinds& kinds_;
  const std::vector<StageShape>& teachers_;
  const std::vector<StageProfiles*>& profiles_;
};

/// Profiles known so far within one prediction, in the form that Profiles needs.
struct KnownProfiles {
  KnownProfiles(const StageKinds& kinds, const std::vector<StageShape>& teachers)
      : profiles(teachers.empty() ? kinds.first_stage.size() : kinds.shapes.size()) {
    all.reserve(profiles.size());
    for (StageProfiles& each : profiles) all.push_back(&each);
  }
  KnownProfiles(const KnownProfiles&) = delete;
  KnownProfiles& operator=(const KnownProfiles&) = delete;

  std::vector<StageProfiles> profiles;
  std::vector<StageProfiles*> all;
};

/// Rows of experts, if the routing is known.
struct Routed {
  const RoutedRows* student = nullptr;
  const RoutedRows* teacher = nullptr;
};

/// Walks over a rank's actions, one after the other.
class Walk {
 public:
  Walk(const std::vector<StageShape>& shapes, const std::vector<StageShape>& teachers,
       const RepeatedSchedule& step, const MemoryPlan::Rank& plan, Profiles& profiles, MemoryDetail detail,
       const Routed& rows, RankMemory& memory)
      : shapes_(shapes),
        teachers_(teachers),
        step_(step),
        plan_(plan),
        profiles_(profiles),
        detail_(detail),
        rows_(rows),
        memory_(memory),
        now_(memory.held),
        now_total_(now_.total().value),
        peak_total_(now_total_) {
    // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG:
    // only these actions' memory depends on their place.
    if (!shapes.empty() && shapes.front().zero == 1) {
      if (shapes.front().overlap_grad_reduce || shapes.front().framework != nullptr) {
        final_ = final_actions(shapes, plan.last);
      } else {
        largest_piece_ = largest_piece();
      }
    }
    memory.peak = memory.held;
    if (detail == MemoryDetail::timeline) memory.timeline.reserve(plan.items.size());
  }

  void run() {
    for (const MemoryPlan::Run& run : plan_.runs) {
      const std::span<const MemoryPlan::Item> items(plan_.items.data() + run.first, run.items);
      if (run.times == 1) {
        walk(items, run, false);
        continue;
      }
      // If the run leaves memory behind, its last repetition is the fullest, else its first.
      const bool grows = total_left_by(items) > 0;
      if (grows) leave_out(items, run.times - 1);
      walk(items, run, grows);
      if (!grows) leave_out(items, run.times - 1);
    }
    if (peak_action_) memory_.at = to_string(*peak_action_);
  }

 private:
  /// Largest piece of the gradients of the rank's units, in bytes.
  std::int64_t largest_piece() const {
    std::int64_t largest = 0;
    for (const StageShape& shape : shapes_) {
      if (step_.once.rank_of_stage[static_cast<std::size_t>(shape.stage)] != memory_.pipeline_rank) continue;
      for (const ParameterUnit& unit : units_of(shape))
        if (unit.pieces > 1 || shape.has_instances())
          largest = std::max(largest, unit.padded / unit.pieces * shape.g());
    }
    return largest;
  }

  std::int64_t total_left_by(std::span<const MemoryPlan::Item> items) {
    std::int64_t total = 0;
    for (const MemoryPlan::Item& item : items) total += profiles_.of(item.action, item.with_extra).net_total;
    return total;
  }

  /// Nothing in them is the fullest moment.
  void leave_out(std::span<const MemoryPlan::Item> items, std::int64_t times) {
    for (const MemoryPlan::Item& item : items) {
      const StageProfiles::Entry& entry = profiles_.of(item.action, item.with_extra);
      for (std::size_t c = 0; c < now_.categories.size(); ++c)
        now_.categories[c] += times * entry.profile.net.categories[c];
      now_total_ += times * entry.net_total;
    }
  }

  void walk(std::span<const MemoryPlan::Item> items, const MemoryPlan::Run& run, bool last) {
    for (const MemoryPlan::Item& item : items) {
      if (item.action.overlaps_next && shapes_[item.action.stage].runs_pairs) {
        pass_pair(item, run, last);
        continue;
      }
      if (&item > plan_.items.data() && (&item)[-1].action.overlaps_next &&
          shapes_[item.action.stage].runs_pairs) {
        pass(item, StageProfiles::Entry(ActionProfile()), run, last);  // all of it is in the pair's first
        continue;
      }
      if (largest_piece_ > 0 && item.action.type == ActionType::reduce_gradients) {
        pass(item, StageProfiles::Entry(reductions_at_the_end(largest_piece_)), run, last);
        continue;
      }
      const bool is_final = item.has_last_gradient && next_final_ < final_.size() &&
                            final_[next_final_].position == item.position;
      if (is_final || (under_way_.piece > 0 && item.action.type == ActionType::reduce_gradients)) {
        const FinalUnits units = is_final ? final_[next_final_++].units : FinalUnits();
        const ActionProfile profile =
            action_profile(routed(item.action), item.action.type, units, under_way_);
        pass(item, StageProfiles::Entry(profile), run, last);
      } else if (rows_of(item.action) != nullptr) {
        pass(item,
             StageProfiles::Entry(action_profile(routed(item.action), item.action.type, item.with_extra)),
             run, last);
      } else {
        pass(item, profiles_.of(item.action, item.with_extra), run, last);
      }
    }
  }

  /// The item and the one after it.
  void pass_pair(const MemoryPlan::Item& item, const MemoryPlan::Run& run, bool last) {
    const auto units_of = [&](const MemoryPlan::Item& member) {
      const bool is_final = member.has_last_gradient && next_final_ < final_.size() &&
                            final_[next_final_].position == member.position;
      return is_final ? final_[next_final_++].units : FinalUnits();
    };
    const MemoryPlan::Item& other = (&item)[1];
    const StageShape shape = routed(item.action);
    const StageShape other_shape = routed(other.action);
    const PairMember first{shape, item.action.type, item.with_extra, units_of(item)};
    const PairMember second{other_shape, other.action.type, other.with_extra, units_of(other)};
    pass(item, StageProfiles::Entry(pair_profile(first, second, under_way_)), run, last);
  }

  /// Null if its routing is unknown.
  const RoutedRows* rows_of(const Action& action) const {
    if (action.type == ActionType::teacher_forward) return rows_.teacher;
    return is_compute(action.type) ? rows_.student : nullptr;
  }

  StageShape routed(const Action& action) const {
    const bool teacher = action.type == ActionType::teacher_forward;
    const StageShape& shape = teacher ? teachers_[action.stage] : shapes_[action.stage];
    const RoutedRows* rows = rows_of(action);
    return rows == nullptr ? shape : rows->in_microbatch(shape, action.microbatch);
  }

  void pass(const MemoryPlan::Item& item, const StageProfiles::Entry& entry, const MemoryPlan::Run& run,
            bool last) {
    const bool timeline = detail_ == MemoryDetail::timeline;
    const bool fuller = now_total_ + entry.peak_total > peak_total_;
    MemoryBreakdown highest;
    if (fuller || timeline) {
      highest = now_;
      add(highest, entry.profile.peak);
    }
    if (fuller) {
      peak_total_ = now_total_ + entry.peak_total;
      memory_.peak = highest;
      peak_action_ = item.action;
      if (last) peak_action_->microbatch = item.last_microbatch;
      peak_action_ = step_.in_step(*peak_action_, run.copy);
    }
    add(now_, entry.profile.net);
    now_total_ += entry.net_total;
    if (timeline) memory_.timeline.push_back({highest, now_});
  }

  const std::vector<StageShape>& shapes_;
  const std::vector<StageShape>& teachers_;
  const RepeatedSchedule& step_;
  const MemoryPlan::Rank& plan_;
  Profiles& profiles_;
  MemoryDetail detail_;
  const Routed rows_;
  RankMemory& memory_;
  std::vector<FinalAction> final_;
  std::size_t next_final_ = 0;
  std::int64_t largest_piece_ = 0;  // reduced by ARG
  ReductionUnderWay under_way_;
  MemoryBreakdown now_;
  std::int64_t now_total_ = 0;
  std::int64_t peak_total_ = 0;
  std::optional<Action> peak_action_;
};

MemoryPrediction walk_all(const RunConfig& config, const RepeatedSchedule& step, const MemoryPlan& plan,
                          const StageKinds& kinds, const std::vector<StageShape>& teachers,
                          const std::vector<StageProfiles*>& known, MemoryDetail detail,
                          const Routed& rows = {}) {
  const Schedule& schedule = step.once;
  Profiles profiles(kinds, teachers, known);
  const Layout layout = config.layout();
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
      memory.held = held_bytes(kinds.on_rank(rank), config, taught);
    }
    memory.host = host_peak(kinds.shapes, step, rank);
    Walk(kinds.shapes, teachers, step, plan.ranks[at], profiles, detail, rows, memory).run();
    if (memory.peak.total() <= prediction.peak) continue;
    prediction.peak = memory.peak.total();
    prediction.peak_rank = memory.rank;
  }
  return prediction;
}

bool receives_ahead(const StageKinds& kinds) {
  return !kinds.shapes.empty() && kinds.shapes.front().receives_ahead;
}

MemoryPrediction predicted(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail,
                           const Software* framework, const Routed& rows) {
  const bool timeline = detail == MemoryDetail::timeline;
  if (timeline && step.repeats())
    throw std::logic_error("a timeline of memory needs every action of the step");
  const std::vector<StageShape> teachers = teacher_shapes(config, step.once);
  const StageKinds kinds(stage_shapes(config, step.once, framework), step.once);
  KnownProfiles known(kinds, teachers);
  const bool by_action = timeline || rows.student != nullptr;
  if (!receives_ahead(kinds)) {
    return walk_all(config, step, memory_plan(step, !teachers.empty(), by_action), kinds, teachers, known.all,
                    detail, rows);
  }
  const bool pairs = kinds.shapes.front().runs_pairs;
  const RepeatedSchedule posted = with_receives_ahead(step, pairs);
  MemoryPrediction prediction = walk_all(config, posted, memory_plan(posted, !teachers.empty(), by_action),
                                         kinds, teachers, known.all, detail, rows);
  for (std::size_t rank = 0; timeline && rank < prediction.ranks.size(); ++rank)
    in_order_of_actions(step.once.actions[rank], pairs, prediction.ranks[rank].timeline);
  return prediction;
}

}  // namespace

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail) {
  return predict_memory(config, step, detail, framework_of(config));
}

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail,
                                const Software* framework) {
  return predicted(config, step, detail, framework, {});
}

MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail,
                                const RoutedRows& rows, const RoutedRows* teacher) {
  return predicted(config, schedule, detail, nullptr, {&rows, teacher});
}

RoutedMemory::RoutedMemory(const RunConfig& config, const Schedule& schedule)
    : config_(config),
      step_(schedule),
      kinds_(stage_shapes(config, schedule, nullptr), schedule),
      teachers_(teacher_shapes(config, schedule)) {
  if (receives_ahead(kinds_)) step_ = with_receives_ahead(step_, kinds_.shapes.front().runs_pairs);
  plan_ = memory_plan(step_, !teachers_.empty(), true);
}

MemoryPrediction RoutedMemory::of(std::span<const RoutedTokens> routing) const {
  const KnownProfiles known(kinds_, teachers_);
  const Layout layout = config_.layout();
  const auto parts = std::span(kinds_.shapes).first(static_cast<std::size_t>(step_.once.stages_per_route()));
  MemoryPrediction all;
  const int senders = layout.senders();
  all.ranks_alike = layout.tensor * layout.data / senders;
  all.ranks.resize(static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(senders));
  for (int sender = 0; sender < senders; ++sender) {
    const RoutedRows rows(config_, parts, routing, sender);
    MemoryPrediction copy =
        walk_all(config_, step_, plan_, kinds_, teachers_, known.all, MemoryDetail::peaks, {&rows, nullptr});
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

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, const MemoryPlan& plan,
                                const StageKinds& kinds, const std::vector<StageProfiles*>& profiles) {
  if (receives_ahead(kinds)) {
    const RepeatedSchedule posted = with_receives_ahead(step, kinds.shapes.front().runs_pairs);
    return walk_all(config, posted, memory_plan(posted, false), kinds, {}, profiles, MemoryDetail::peaks);
  }
  return walk_all(config, step, plan, kinds, {}, profiles, MemoryDetail::peaks);
}

}  // namespace plumbline
