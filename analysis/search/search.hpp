// Every legal configuration of a model on N accelerators, evaluated; the best, the Pareto front, and why
// nothing fits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cluster/interleaved_time.hpp"
#include "analysis/cluster/pipeline_time.hpp"
#include "analysis/cluster/stage_cost.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline::cluster {

Model model_of(const ModelConfig& config);

struct SearchRequest {
  /// What of a candidate's configuration is not searched. With it, what why_invalid refuses is no candidate.
  std::optional<RunConfig> config;
  Model model;
  double sequence = 0;
  int global_batch = 1;
  int accelerators = 1;
  bool hidden_dropout = false;
  bool attention_dropout = false;
  double memory_budget = 0;  // bytes for tensors on one accelerator
  int top = 10;
  int threads = 1;
};

/// Where a step's time goes; the parts add up to step_s.
struct TimeParts {
  double compute = 0;   // busiest stage: kernels and what hides behind them
  double tensor = 0;    // its exposed tensor-parallel communication
  double pipeline = 0;  // waiting for other stages and messages
  double data = 0;      // gradient and parameter communication that nothing hides
  double optimizer = 0;
  double sum() const { return compute + tensor + pipeline + data + optimizer; }
};

struct Candidate {
  Job job;
  std::uint8_t schedule = 0;  // index into search_schedules()
  double step_s = 0;
  double peak_bytes = 0;
  TimeParts parts;
};

/// Names of the schedules that are tried.
const std::vector<std::string>& search_schedules();
/// Traits of one of them. The first stands for all where there is one rank.
const ScheduleTraits& search_traits(std::size_t schedule);

struct SearchResult {
  std::vector<Candidate> best;   // fits the budget, fastest first
  std::vector<Candidate> front;  // no other is both faster and smaller; smallest memory first, budget ignored
  std::uint64_t configurations = 0;  // evaluated
  std::uint64_t fitting = 0;
  std::uint64_t simulated = 0;  // pipeline times that were swept; the rest had a closed form or were shared
  std::string refused;          // why one configuration that is none was refused; empty: none was
};

/// Calls `progress(done, all)` now and then from one thread. Throws InputError when the request allows no
/// configuration at all, saying what would have to change.
SearchResult search(const SearchRequest& request, const Machine& machine, const Software& software,
                    PipelinePlans& plans, const std::function<void(int, int)>& progress = {});

/// One configuration, as the search evaluates it. Used by tests and benchmarks.
class Evaluator {
 public:
  Evaluator(const Machine& machine, const Software& software, PipelinePlans& plans)
      : machine_(machine), software_(software), plans_(plans) {}

  /// Sets what depends on the job but not on its schedule or ZeRO stage.
  void set_job(const Job& job);
  /// The pipeline of the job under a schedule; false when the schedule does not allow these sizes.
  bool set_schedule(std::uint8_t schedule);
  /// Full recomputation: layers per kept input. Time stays as it is.
  void set_recompute_layers(double layers);
  /// Memory and time under a ZeRO stage and a type of gradients.
  Candidate evaluate(int zero, bool half_gradients) const;

  std::uint64_t simulated() const { return simulated_; }

 private:
  InterleavedCosts interleaved_costs() const;
  double memory(const Job& job) const;
  void data_parallel(const Job& job, Candidate& candidate) const;

  const Machine& machine_;
  const Software& software_;
  PipelinePlans& plans_;
  Job job_;
  JobCosts costs_;
  std::uint8_t schedule_ = 0;
  const PipelinePlans::Entry* entry_ = nullptr;
  StageKinds stages_;
  StageLayers layers_;
  double layers_per_stage_ = 0;  // of the fullest stage
  double pipeline_s_ = 0;
  double activation_bytes_ = 0;  // one layer, one micro-batch
  double whole_bytes_ = 0;       // the same without recomputation
  double work_ = 0;              // of the busiest rank, one micro-batch
  Costs scratch_;
  SweepTimes times_;
  InterleavedTime interleaved_;
  std::uint64_t simulated_ = 0;
};

}  // namespace plumbline::cluster
