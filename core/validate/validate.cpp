#include "core/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/schedule/action_index.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/validate/blocked_cycle.hpp"
#include "core/validate/transfer_rules.hpp"

namespace plumbline {
namespace {

/// Collects the rules; each check returns true when it found a fault.
class Rules {
 public:
  explicit Rules(const Schedule& schedule)
      : schedule_(schedule), index_(schedule), lowest_(static_cast<std::size_t>(schedule.ranks), -1) {
    for (int stage = schedule.stages - 1; stage >= 0; --stage) {
      lowest_[static_cast<std::size_t>(rank_of(stage))] = stage;
    }
  }

  Fault check() {
    (void)(routes() || duplicates() || complete() || side_passes() || step_end() || order() || transfers() ||
           executable());
    return fault_;
  }

 private:
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<std::size_t>(stage)]; }
  std::uint32_t microbatches() const { return static_cast<std::uint32_t>(schedule_.microbatches); }
  std::int32_t end_of(int rank) const {
    return static_cast<std::int32_t>(schedule_.actions[static_cast<std::size_t>(rank)].size());
  }
  std::int32_t find(ActionType type, int stage, std::uint32_t m) const {
    return index_.position(type, stage, m);
  }
  static std::string cell(int stage, ActionType type, std::uint32_t m) {
    return to_string({type, false, static_cast<std::uint16_t>(stage), m});
  }
  bool fail(int rank, std::int32_t position, std::string rule) {
    fault_ = {rank, position, std::move(rule)};
    return true;
  }
  bool missing(std::int32_t position, int stage, ActionType type, std::uint32_t m) {
    return fail(rank_of(stage), position, cell(stage, type, m) + " is missing");
  }
  bool on_route(int stage, std::uint32_t m) const {
    return stage / schedule_.stages_per_route() == schedule_.route_of(m);
  }

  bool routes() {
    if (schedule_.routes == 1) return false;
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      const auto& actions = schedule_.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& a = actions[i];
        const bool every_route = !is_compute(a.type) && !is_transfer(a.type);
        if (!every_route && !on_route(a.stage, a.microbatch)) {
          return fail(rank, static_cast<std::int32_t>(i),
                      fmt::format("{}: micro-batch {} takes route {}, stage {} is on route {}", to_string(a),
                                  a.microbatch, schedule_.route_of(a.microbatch), a.stage,
                                  a.stage / schedule_.stages_per_route()));
        }
      }
    }
    return false;
  }

  bool duplicates() {
    const auto& twice = index_.duplicate();
    if (twice.rank < 0) return false;
    const Action& a =
        schedule_.actions[static_cast<std::size_t>(twice.rank)][static_cast<std::size_t>(twice.position)];
    return fail(twice.rank, twice.position,
                fmt::format("{} appears twice, first in column {}", to_string(a), twice.first_position + 1));
  }

  bool complete() {
    const bool teacher = index_.has(ActionType::teacher_forward);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (std::uint32_t m = 0; m < microbatches(); ++m) {
        if (!on_route(stage, m)) continue;
        const std::int32_t f = find(ActionType::forward, stage, m);
        const std::int32_t b = find(ActionType::backward, stage, m);
        const std::int32_t i = find(ActionType::backward_input, stage, m);
        const std::int32_t w = find(ActionType::backward_weight, stage, m);
        const int rank = rank_of(stage);
        const std::int32_t gradient = std::max({b, i, w});
        if (f == ActionIndex::kAbsent) {
          return missing(gradient == ActionIndex::kAbsent ? end_of(rank) : gradient, stage,
                         ActionType::forward, m);
        }
        if (b == ActionIndex::kAbsent && i == ActionIndex::kAbsent && w == ActionIndex::kAbsent) {
          return fail(rank, f,
                      fmt::format("{} is missing (or {} and {})", cell(stage, ActionType::backward, m),
                                  cell(stage, ActionType::backward_input, m),
                                  cell(stage, ActionType::backward_weight, m)));
        }
        if (b != ActionIndex::kAbsent && (i != ActionIndex::kAbsent || w != ActionIndex::kAbsent)) {
          return fail(
              rank, std::max(i, w),
              fmt::format(
                  "{} holds both gradients already, {} is one too many", cell(stage, ActionType::backward, m),
                  cell(stage,
                       i != ActionIndex::kAbsent ? ActionType::backward_input : ActionType::backward_weight,
                       m)));
        }
        if (b == ActionIndex::kAbsent && (i == ActionIndex::kAbsent || w == ActionIndex::kAbsent)) {
          return fail(
              rank, std::max(i, w),
              fmt::format("{} is missing", cell(stage,
                                                i == ActionIndex::kAbsent ? ActionType::backward_input
                                                                          : ActionType::backward_weight,
                                                m)));
        }
        if (teacher && find(ActionType::teacher_forward, stage, m) == ActionIndex::kAbsent) {
          return missing(f, stage, ActionType::teacher_forward, m);
        }
      }
    }
    return false;
  }

  /// Vocabulary and input passes: all ranks or none, in the name of the lowest stage of the rank.
  bool side_passes() {
    const std::pair<ActionType, ActionType> kPairs[] = {
        {ActionType::vocab_forward, ActionType::vocab_backward},
        {ActionType::input_forward, ActionType::input_backward}};
    for (const auto& [first, second] : kPairs) {
      if (!index_.has(first) && !index_.has(second)) continue;
      if (first == ActionType::vocab_forward && schedule_.vocab == VocabPasses::none) {
        return fail(0, 0, "there are S or T passes, but the schedule does not say how they meet (vocab)");
      }
      for (int rank = 0; rank < schedule_.ranks; ++rank) {
        const int stage = lowest_[static_cast<std::size_t>(rank)];
        if (stage < 0) continue;
        for (std::uint32_t m = 0; m < microbatches(); ++m) {
          const std::int32_t a = find(first, stage, m);
          const std::int32_t b = find(second, stage, m);
          if (a == ActionIndex::kAbsent || b == ActionIndex::kAbsent) {
            const std::int32_t other = std::max(a, b);
            return missing(other == ActionIndex::kAbsent ? end_of(rank) : other, stage,
                           a == ActionIndex::kAbsent ? first : second, m);
          }
          if (b < a) {
            return fail(rank, b,
                        fmt::format("{} comes before {}", cell(stage, second, m), cell(stage, first, m)));
          }
        }
      }
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        if (lowest_[static_cast<std::size_t>(rank_of(stage))] == stage) continue;
        for (std::uint32_t m = 0; m < microbatches(); ++m) {
          for (const ActionType type : {first, second}) {
            const std::int32_t extra = find(type, stage, m);
            if (extra == ActionIndex::kAbsent) continue;
            return fail(rank_of(stage), extra,
                        fmt::format("{}: such passes carry the lowest stage of the rank, here {}",
                                    cell(stage, type, m), lowest_[static_cast<std::size_t>(rank_of(stage))]));
          }
        }
      }
    }
    if (schedule_.vocab != VocabPasses::none && !index_.has(ActionType::vocab_forward)) {
      return fail(0, 0, "the schedule announces vocabulary passes (vocab), but has no S and T");
    }
    return false;
  }

  /// ARG, ARE, OPT: at most once per rank, on every rank that must, after all work on micro-batches.
  bool step_end() {
    const ActionType kEnds[] = {ActionType::reduce_gradients, ActionType::reduce_embedding,
                                ActionType::optimizer};
    for (const ActionType type : kEnds) {
      if (!index_.has(type)) continue;
      for (int rank = 0; rank < schedule_.ranks; ++rank) {
        const auto& actions = schedule_.actions[static_cast<std::size_t>(rank)];
        const bool expected = type != ActionType::reduce_embedding || rank == rank_of(0) ||
                              rank == rank_of(schedule_.stages_per_route() - 1);
        std::int32_t seen = ActionIndex::kAbsent;
        for (std::size_t i = 0; i < actions.size(); ++i) {
          const auto at = static_cast<std::int32_t>(i);
          const bool work = is_compute(actions[i].type) || is_transfer(actions[i].type);
          if (work && seen != ActionIndex::kAbsent) {
            return fail(rank, at,
                        fmt::format("{} comes after {}", to_string(actions[i]),
                                    to_string(actions[static_cast<std::size_t>(seen)])));
          }
          if (actions[i].type != type) continue;
          if (seen != ActionIndex::kAbsent || !expected) {
            return fail(
                rank, at,
                fmt::format("{} is one {} too many on this rank", to_string(actions[i]), name_of(type)));
          }
          seen = at;
        }
        if (expected && seen == ActionIndex::kAbsent) {
          return fail(rank, end_of(rank), fmt::format("{} is missing on this rank", name_of(type)));
        }
      }
    }
    return false;
  }

  bool before(ActionType first, ActionType second, int stage, std::uint32_t m) {
    const std::int32_t a = find(first, stage, m);
    const std::int32_t b = find(second, stage, m);
    if (a == ActionIndex::kAbsent || b == ActionIndex::kAbsent || a < b) return false;
    return fail(rank_of(stage), b,
                fmt::format("{} comes before {}", cell(stage, second, m), cell(stage, first, m)));
  }

  bool order() {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const bool last = schedule_.last_of_route(stage);
      for (std::uint32_t m = 0; m < microbatches(); ++m) {
        if (before(ActionType::forward, ActionType::backward, stage, m) ||
            before(ActionType::forward, ActionType::backward_input, stage, m) ||
            before(ActionType::backward_input, ActionType::backward_weight, stage, m) ||
            (last && before(ActionType::teacher_forward, ActionType::backward, stage, m)) ||
            (last && before(ActionType::teacher_forward, ActionType::backward_input, stage, m))) {
          return true;
        }
      }
    }
    return false;
  }

  bool transfers() {
    fault_ = find_transfer_fault(schedule_, index_);
    return !fault_.rule.empty();
  }

  bool executable() {
    const BlockedCycle cycle = find_blocked_cycle(schedule_, {});
    if (cycle.cells.empty()) return false;
    return fail(cycle.cells.front().first, cycle.cells.front().second, describe(schedule_, cycle));
  }

  const Schedule& schedule_;
  ActionIndex index_;
  std::vector<int> lowest_;  // lowest stage of each rank, -1 without stages
  Fault fault_;
};

}  // namespace

Fault find_fault(const Schedule& schedule) {
  check_ranges(schedule);
  return Rules(schedule).check();
}

void validate(const Schedule& schedule) {
  const Fault fault = find_fault(schedule);
  if (fault.rule.empty()) return;
  throw InputError(fmt::format("schedule {}: rank {}, column {}: {}", schedule.name, fault.rank,
                               fault.position + 1, fault.rule),
                   grid_around(schedule, fault.rank, fault.position));
}

}  // namespace plumbline
