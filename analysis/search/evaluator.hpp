// Evaluation of one search candidate: cheap lower bounds first, then the exact prediction.
#pragma once

#include <algorithm>
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
#include "analysis/search/longest_chain.hpp"
#include "analysis/search/lower_bound.hpp"
#include "analysis/search/search_space.hpp"
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
    /// Chains that were longest for some candidates. Only the thread that predicts adds to them.
    mutable std::vector<LongestChain> chains;
  };
  /// nullptr when the schedule does not allow the sizes. `config` has the keys. Threads that want the same
  /// one wait for its maker, others do not.
  const Entry* find(const SearchKeys& keys, const RunConfig& config);
  /// One of the same kind with enough micro-batches to fill the pipeline, if LowerBound scales it: what every
  /// rank holds, and does for each of them, does not shrink with more.
  const Entry* find_short(const SearchKeys& keys, const RunConfig& config);
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

  /// Longest chain of the candidate whose bounds() were asked for last, messages included. Later bounds of
  /// the same schedule know it.
  Seconds longest_chain();

  /// Lower bounds of all candidates of a family, cheaper than FamilyBounds and never above them.
  struct Floor {
    Seconds at_least;  // of the step
    Bytes peak;
  };
  /// Nothing when the family has no schedule. Both have the least ZeRO stage and the smallest gradients. Of
  /// the time, only the stages with most layers are in it: the others' passes take at least nothing. The
  /// peak is the first rank's: the least that any ZeRO stage holds, and the work of the least stage, which
  /// gathers nothing.
  std::optional<Floor> floor(const SearchFamily& family);

  /// Bounds that no candidate of a family falls below.
  struct FamilyBounds {
    std::vector<Seconds> steps;  // by variant, in the order of visit_group(): a step, without its end
    std::vector<Bytes> peaks;    // the same: memory of a rank, with groups of any size
    Seconds at_least() const { return *std::min_element(steps.begin(), steps.end()); }
    Bytes peak() const { return *std::min_element(peaks.begin(), peaks.end()); }
  };
  /// Nothing when the family has no schedule, or when `open(peak)` is false: times take longer to find than
  /// memory. `steps` are of the least ZeRO stage, whose passes gather and scatter nothing, and of groups of
  /// one layer, which recompute least. `peaks` are of what the largest groups keep and the smallest ones work
  /// with, on the ranks at both ends.
  std::optional<FamilyBounds> bounds(const SearchFamily& family, const std::function<bool(Bytes)>& open);
  /// Calls `found(place, keys, peak, at_least)` for the candidates of a family, with their place in it: those
  /// for which `open(keys, peak, at_least)` holds with what they take at least.
  template <class Open, class Found>
  void visit_open(const SearchFamily& family, const FamilyBounds& bounds, const Open& open,
                  const Found& found) {
    set_keys(family.keys, config_);
    const SearchSchedules::Entry& entry = *schedule_of(family.keys, false);
    StepModel model(config_, entry.step.once, software_);
    std::vector<std::optional<Seconds>> steps(bounds.steps.size());  // with the end of the step
    std::size_t place = 0;
    for (int size = 1; size <= family.groups; ++size) {
      std::size_t variant = 0;
      visit_group(family, size, [&](const SearchKeys& keys) {
        const std::size_t at = place++;
        Bytes peak = bounds.peaks[variant];
        const Seconds passes = bounds.steps[variant];
        std::optional<Seconds>& step = steps[variant++];
        if (!open(keys, peak, step.value_or(passes))) return;
        take(keys, model);
        peak = std::max(peak, least_peak(entry, model));  // cheaper than the step, and closes most
        if (!open(keys, peak, step.value_or(passes))) return;
        // Larger groups may hide more of what every pass gathers and scatters.
        if (!step || keys.zero >= 2) step = least_step(keys, entry, model);
        if (open(keys, peak, *step)) found(at, keys, peak, *step);
        if (keys.zero >= 2) step.reset();
      });
    }
  }
  /// The prediction of a candidate that has one. `whole`: with the collectives of vocabulary parallelism,
  /// which change neither its step nor its memory.
  Candidate predicted(const SearchKeys& keys, bool whole = true);

 private:
  /// Memory that a rank takes at least beyond what it holds, with groups of one to `groups` recomputed
  /// layers: the inputs that the largest ones keep, the work of the smallest. Changes the model's groups.
  Bytes working(const SearchSchedules::Entry& entry, StepModel& model, int rank, int groups);
  /// Makes the model that of another candidate of its family.
  void take(const SearchKeys& keys, StepModel& model);
  /// Bound of a candidate's step.
  Seconds least_step(const SearchKeys& keys, const SearchSchedules::Entry& entry, StepModel& model);
  /// Memory of the ranks at both ends of the pipeline, of which mostly one is the fullest.
  Bytes least_peak(const SearchSchedules::Entry& entry, const StepModel& model);
  /// As of SearchSchedules, `whole` or short; most candidates have that of the one before.
  const SearchSchedules::Entry* schedule_of(const SearchKeys& keys, bool whole);
  /// The candidate's micro-batches over those of a short schedule.
  double longer_than(const SearchSchedules::Entry& entry) const;
  /// Stages by kind.
  std::vector<StageMemo::Stage*> stages_of(const StageKinds& kinds);
  /// Fills in the costs of a stage's passes.
  void fill_passes(const SearchSchedules::Entry& entry, const StageShape& shape, StageMemo::Stage& stage);
  /// Costs of the passes alone, none of which exceeds those that predict() simulates. `stages`: by kind.
  Costs pass_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                   const std::vector<StageMemo::Stage*>& stages);
  /// `stages`: by kind.
  Costs bounding_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                       const std::vector<StageMemo::Stage*>& stages);

  RunConfig config_;
  const HardwareProfile& hardware_;
  const Software& software_;
  SearchSchedules& schedules_;
  StageMemo memo_;
  SearchKeys last_keys_;
  Costs bounded_;                                  // costs of the last bounds()
  const SearchSchedules::Entry* known_ = nullptr;  // of `last_keys_`
  bool whole_ = true;                              // likewise
};

}  // namespace plumbline
