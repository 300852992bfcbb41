// How long a pipeline takes, fast: a closed form where it is exact, else a sweep over a prepared schedule,
// continued linearly once the schedule repeats itself.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/cluster/fused_plan.hpp"
#include "analysis/cluster/step.hpp"
#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline::cluster {

/// Seconds per micro-batch of the stages of a pipeline: the first, any in the middle and the last.
struct StageKinds {
  StageCosts first;
  StageCosts middle;
  StageCosts last;
  double message = 0;  // overlaps with compute
};

/// Exact times of 1F1B and GPipe where the last stage is the slowest and never waits: it works without a
/// break from the arrival of the first micro-batch. Nothing where that does not hold or for other schedules.
///   1F1B:  Σ_{i<l}(F_i + B_i) + 2(P-1)c + M(F_l + B_l)   if  F_i + B_i + 2c <= F_l + B_l  for all i < l
///   GPipe: Σ_{i<l}(F_i + B_i) + 2(P-1)c + M(F_l + B_l)   if  F_i <= F_l, B_i <= B_l, c <= F_l and c <= B_l
std::optional<double> exact_pipeline_seconds(std::string_view schedule, int ranks, int microbatches,
                                             const StageKinds& stages);

/// One schedule with its micro-batches, ready to be swept many times.
class PipelinePlan {
 public:
  PipelinePlan(const Schedule& schedule, bool links);

  double seconds(const StageKinds& stages, Costs& costs, SweepTimes& times) const;
  /// Most chunks a rank holds, when a split backward's first half frees everything, and when nothing.
  struct Held {
    double freed = 0;
    double kept = 0;
    int chunks = 0;      // stages of this rank, copies of the model counted
    bool first = false;  // holds an embedding
    bool last = false;   // holds an output layer
  };
  const std::vector<Held>& held() const { return held_; }
  int stages_per_route() const { return stages_per_route_; }

 private:
  SimulationPlan plan_;
  FusedPlan fused_;
  std::vector<std::uint8_t> kinds_;  // per stage: 0 first, 1 middle, 2 last
  std::vector<Held> held_;
  int stages_per_route_ = 1;
};

/// Schedules by name and size, each made once. Where there are more micro-batches than `limit`, two shorter
/// schedules stand for the long one.
class PipelinePlans {
 public:
  explicit PipelinePlans(ScheduleMaker make) : make_(std::move(make)) {}

  struct Entry {
    const PipelinePlan* exact = nullptr;  // or two shorter ones
    const PipelinePlan* shorter = nullptr;
    const PipelinePlan* longer = nullptr;
    int shorter_microbatches = 0;
    int longer_microbatches = 0;
    std::string refused;  // why there is no such schedule
    const PipelinePlan& memory_plan() const { return exact != nullptr ? *exact : *longer; }
  };
  const Entry& find(const ScheduleNeed& need, bool links);

 private:
  const PipelinePlan* plan(const ScheduleNeed& need, int microbatches, bool links, std::string& refused);

  using Key = std::tuple<std::string, int, int, int, int, bool>;
  ScheduleMaker make_;
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::map<Key, std::unique_ptr<PipelinePlan>> plans_;
};

/// The pipeline part of a step. `costs` and `times` are scratch space that is reused.
double pipeline_seconds(const PipelinePlans::Entry& entry, int microbatches, const StageKinds& stages,
                        Costs& costs, SweepTimes& times);

}  // namespace plumbline::cluster
