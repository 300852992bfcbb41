// Cache of stage times and memory: the candidates of a search share most of their stages.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/action_memory.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/time/processor_contention.hpp"
#include "analysis/time/time_phases.hpp"
#include "analysis/work/operator_list.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Lower bounds of action times and profiles of their memory by stage shape, on a device for every rank.
/// Times hold for every layout whose groups lie alike on the first node, the rest for one layout at a time.
class StageMemo {
 public:
  explicit StageMemo(const HardwareProfile& hardware) : hardware_(hardware) {}

  /// Times of a stage's actions.
  struct Passes {
    StageCosts costs;       // no action takes less; the end of the step is not in it
    ActionTypes present{};  // those that are in `costs`, the others are 0 there
  };
  /// Known figures of a stage, independent of its position.
  struct Stage {
    StageProfiles memory;
    Passes* passes = nullptr;  // shared by stages of the same work
    double contention = 1;     // as of stage()
  };

  /// Candidates with another layout follow; all stages are gone.
  void forget();

  /// `contention`: Load::collective_contention of the candidate.
  Stage& stage(const StageShape& shape, double contention);
  /// The costs of `stage.passes` with all actions of `present` that the shape has.
  const StageCosts& passes(const Stage& stage, const StageShape& shape, const ActionTypes& present,
                           const Load& load);
  /// OPT, and the parts of ARG and ARE that cannot overlap with the last backwards, on a rank that holds
  /// these stages. `known`: results of stage() for them; `routes`: of the schedule (with two, some of these
  /// stages are copies); `held` makes the rank when it is a new one.
  const StageCosts& step_end(std::vector<const Stage*> known, int routes,
                             const std::function<HeldStages()>& held, const RunConfig& config,
                             const Load& load);

 private:
  /// Times of a stage's actions in any layout, filled where `phase` is new.
  Seconds action_time(const StageShape& shape, double contention, const Phase& phase, const Load& load);

  struct Key {
    StageShape shape;
    double contention = 1;  // methods of splitting a vocabulary have the same shapes
    Layout layout{};        // near_layout(); of no matter where only one layout is known
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  const HardwareProfile& hardware_;
  std::unordered_map<Key, Stage, Hash> stages_;
  std::unordered_map<Key, Passes, Hash> passes_;
  std::unordered_map<Key, Passes, Hash> anywhere_;                        // of every layout so far
  std::map<std::pair<int, std::vector<const Stage*>>, StageCosts> ends_;  // by routes and stages
};

}  // namespace plumbline
