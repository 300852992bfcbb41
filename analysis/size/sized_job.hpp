// A training on a given number of GPUs: its fastest layout, days, GPU-hours and cost.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/verdict.hpp"
#include "analysis/reliability/draws.hpp"
#include "analysis/reliability/goodput.hpp"
#include "analysis/search/search.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Sequences of a step, from `least` to `most`.
struct BatchRange {
  int least = 1;
  int most = 1;
};

/// The batch of a range for this many GPUs: the largest multiple of the most GPUs that leaves out at most a
/// tenth of the range's end, since replicas share it evenly. `most` where no multiple is in the range.
int batch_for(const BatchRange& range, int gpus);

/// A training and one kind of accelerator.
struct SizeQuestion {
  RunConfig
      config;  // model, sequence, precision, software and hardware; GPUs and batch are set for each count
  HardwareProfile hardware;
  StepFor make;
  BatchRange batch;
  double tokens = 0;
  /// Failures, checkpoints, recovery and price of a GPU-hour; the rest is set for each count.
  GoodputRequest job;
  SearchLimits limits;
  std::function<bool(const SearchKeys&)> wanted{};  // as in SearchRequest
  std::function<bool()> stopped{};                  // likewise
  double deadline_s = 0;                            // likewise, of one count
  int threads = 1;
  bool fixed = false;  // the configuration's own layout, without a search
};

/// Parts of a job's GPU-hours. They sum to the whole.
struct GpuHours {
  double compute = 0;   // forward and backward
  double tensor = 0;    // exposed TP/CP/EP communication
  double pipeline = 0;  // bubble and messages between stages
  double data = 0;      // exposed DP communication and offload copies
  double optimizer = 0;
  double slow = 0;      // waiting for slow machines (analysis/stragglers/slow_machines.hpp)
  double failures = 0;  // repeated work, recoveries, checkpoint stalls
  double sum() const { return compute + tensor + pipeline + data + optimizer + slow + failures; }
};

/// 80 % intervals of a job's figures, each drawn whole.
struct JobSpread {
  Interval days;
  Interval gpu_hours;
  std::optional<Interval> cost;
};

struct SizedJob {
  int gpus = 1;
  int batch = 1;         // sequences of a step
  Candidate layout;      // the fastest that fits; its step is undisturbed
  Seconds step;          // mean, with slow machines
  double effective = 0;  // expected share of the time that goes into work that is kept
  double days = 0;
  GpuHours hours;
  std::optional<double> cost;
  /// Range of the step, and so of days, GPU-hours and cost, that eight of ten comparable runs had.
  std::optional<ErrorInterval> interval;
  /// 80 % intervals over steps of comparable runs, slow machines and failures; with `interval` alone.
  std::optional<JobSpread> spread{};
  MemoryVerdict verdict{};
  bool complete = true;  // false: the search was stopped, a faster layout may exist
};

/// The job on `gpus`, or nothing: `why` is then the reason, one line. Throws InputError when the
/// configuration cannot be predicted.
std::optional<SizedJob> size_job(const SizeQuestion& question, int gpus, std::string& why);

/// Intervals of a job whose steps err like `runs`. `effective`: its share in trials of its length, ascending;
/// empty: as expected.
JobSpread spread_of(const SizedJob& job, const ComparableRuns& runs, const std::vector<double>& effective);

/// Job of a step that is known: without a layout and its parts.
SizedJob job_of_step(const SizeQuestion& question, int gpus, int batch, const StepTime& time);

}  // namespace plumbline
