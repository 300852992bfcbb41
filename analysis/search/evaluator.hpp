// Evaluation of one search candidate: cheap lower bounds first, then the exact prediction.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/memory/memory_walk.hpp"
#include "analysis/search/candidate.hpp"
#include "analysis/search/lower_bound.hpp"
#include "analysis/search/stage_memo.hpp"
#include "analysis/step/step_model.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Makes a configuration's step; `analysis` does not know how. Throws InputError if there is none.
using StepFor = std::function<RepeatedSchedule(const RunConfig&)>;

/// Schedules of a search by their inputs, each made once, for all threads.
class SearchSchedules {
 public:
  explicit SearchSchedules(StepFor make) : make_(std::move(make)) {}

  struct Entry {
    explicit Entry(RepeatedSchedule made);
    RepeatedSchedule step;
    MemoryPlan memory;
    LowerBound bound;
    ActionTypes present;
    std::vector<int> channels;  // channel_ends()
  };
  /// nullptr when the schedule does not allow the sizes. `config` has the keys. Threads that want the same
  /// one wait for its maker, others do not.
  const Entry* find(const SearchKeys& keys, const RunConfig& config);
  /// Why one configuration has no schedule; empty: every one has.
  std::string refused() const;

 private:
  using Key = std::tuple<int, int, int, int, int, bool>;
  struct Slot {
    std::once_flag made;
    std::unique_ptr<const Entry> entry;
  };
  StepFor make_;
  mutable std::mutex mutex_;  // of the following members, but not of the slots
  std::map<Key, Slot> slots_;
  std::string refused_;
};

class Evaluator {
 public:
  /// `config`: the fixed part of the candidates. References are kept.
  Evaluator(const RunConfig& config, const HardwareProfile& hardware, SearchSchedules& schedules)
      : config_(config),
        hardware_(hardware),
        software_(software_of(config)),
        schedules_(schedules),
        memo_(hardware) {}

  struct Bounds {
    Bytes peak;        // exact
    Seconds at_least;  // of the step
    bool fits = false;
  };
  /// Candidates with another layout of ranks or micro-batch follow.
  void begin_region() {
    memo_.forget();
    known_ = nullptr;
  }
  /// Nothing when the candidate has no schedule.
  std::optional<Bounds> bounds(const SearchKeys& keys);
  /// The prediction of a candidate that has one.
  Candidate predicted(const SearchKeys& keys);

 private:
  /// As of SearchSchedules; most candidates have that of the one before.
  const SearchSchedules::Entry* schedule_of(const SearchKeys& keys);
  /// `stages`: by kind.
  Costs bounding_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                       const std::vector<StageMemo::Stage*>& stages);

  RunConfig config_;
  const HardwareProfile& hardware_;
  const Software& software_;
  SearchSchedules& schedules_;
  StageMemo memo_;
  SearchKeys last_keys_;
  const SearchSchedules::Entry* known_ = nullptr;  // of `last_keys_`
};

}  // namespace plumbline
