// The record of one cell: its configuration, prediction, measurement, and the error between them. Its keys
// are in bench/record/tables and results/README.md. Units in memory are types; in JSON bytes, seconds and
// plain numbers.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/record/attention_report.hpp"
#include "bench/record/checkpoint_report.hpp"
#include "bench/record/computing_report.hpp"
#include "bench/record/device_memory_report.hpp"
#include "bench/record/energy_report.hpp"
#include "bench/record/expert_load_report.hpp"
#include "bench/record/gpu_report.hpp"
#include "bench/record/probed_report.hpp"
#include "bench/record/recovery_report.hpp"
#include "bench/record/step_report.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/units.hpp"
#include "core/run/traffic.hpp"
#include "core/tensor/arena.hpp"
#include "core/trace/lane_sums.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

constexpr int kRecordSchema = 1;
/// Predictions of larger worlds have one row for ranks that are alike (results/README.md).
constexpr int kMostRankRows = 4096;

enum class Status { ok, oom, invalid, failed, timeout, unsupported };
std::string_view name_of(Status status);
/// How a command ends whose run has this status.
ExitCode exit_code_of(Status status);

/// Total of all live tensors of one name and category.
struct HolderReport {
  std::string holder;
  Category category = Category::workspace;
  Bytes bytes;
  std::int64_t tensors = 0;
};

struct RankMemoryReport {
  int rank = 0;                       // world rank
  int pipeline_rank = 0;              // its pipeline coordinate
  MemoryBreakdown bytes;              // at the rank's peak; its total is the peak
  std::string at;                     // the action of the peak, "3F7"; empty: outside of any, or not known
  std::vector<HolderReport> holders;  // largest at the peak, biggest first; measured only
  Bytes host;           // at most in the host's memory, of offloaded activations; not in `bytes`
  int ranks_alike = 1;  // world ranks from `rank` on that this row stands for
};

struct MemoryReport {
  Bytes peak;  // of the rank that needs most
  int peak_rank = 0;
  std::vector<RankMemoryReport> ranks;

  /// Peak and peak rank from the rows: the first rank with the largest total.
  static MemoryReport of(std::vector<RankMemoryReport> ranks);
  /// The row of a world rank; nullptr without one.
  const RankMemoryReport* row_of(int rank) const;
};

struct PredictionReport {
  bool fits = true;
  MemoryReport memory;
  StepTime time;
  Throughput throughput;
  std::optional<Traffic> traffic;                   // of one step; of each figure the largest of any rank
  std::optional<DeviceMemoryReport> device_memory;  // nothing: the hardware profile knows none
  /// The step when every class is as quick or slow as calibration saw it; nothing: not known.
  std::optional<StepInterval> step_interval{};
  /// 80 % interval of the step by comparable published runs; nothing: there are none.
  std::optional<StepInterval> comparable_step{};
  std::vector<ExpertLoadReport>
      expert_load{};                // of MoE layers whose experts drop tokens or whose routing is given
  std::optional<LaneSums> lanes{};  // nothing: not predicted
  std::optional<AttentionReport> attention{};  // of packed sequences, over an epoch
  bool times_guessed = false;                  // the machine was not calibrated and no accelerator was named
  bool times_estimated = false;                // from an accelerator's constants, not from a calibration
  std::string verdict{};                       // fits, tight, does not fit or unknown; empty: an older record
  std::optional<double> chance{};  // that it does not fit; nothing: no published run is comparable
};

/// "fits", "tight", "does not fit", "unknown"; of an older record one of two.
std::string verdict_word(const PredictionReport& prediction);
/// "tight (23 %)", else the word alone.
std::string verdict_text(const std::string& word, std::optional<double> chance);
std::string verdict_text(const PredictionReport& prediction);

/// One line on a prediction that does not fit: by device memory and allocator margin, or by the memory
/// budget.
std::string why_not_fitting(const PredictionReport& prediction);

struct MeasurementReport {
  MemoryReport memory;
  StepTime time;  // of the median step
  Throughput throughput;
  int samples = 0;  // timed steps
  Seconds step_min;
  Seconds step_max;
  double loss = 0;             // of the last step; NaN is written as null
  std::vector<double> losses;  // of every step, warm-up included; empty: none is computed, or an old record
  std::vector<double> module_losses;  // of the MTP modules, in the last step
  Bytes device_reserved;              // largest of any rank, as the memory source counts it
  std::optional<Traffic> traffic;
  std::optional<DeviceMemoryReport> device_memory;  // backend cuda
  std::optional<GpuReport> gpu{};                   // backend cuda
  std::vector<StepReport> steps;                    // every timed step; empty: not timed, or an old record
  DisturbanceReport disturbance;
  std::vector<ComputingReport> computing;  // by world rank; empty: not known, or an old record
  std::vector<ExpertLoadReport>
      expert_load{};  // of MoE layers, in the last step; empty: unknown, or an old record
  int rounds = 1;     // times that the cell was measured, all in `steps`
  std::optional<CheckpointReport> checkpoints{};  // of a run that writes or has read some
  std::optional<LaneSums> lanes{};                // of the median step; nothing: not noted
  std::optional<AttentionReport> attention{};     // of packed sequences, in all steps
  std::optional<EnergyReport> energy{};           // nothing: emulated, or an older record
};

/// Prediction against measurement: positive when too much was predicted.
struct ErrorReport {
  double peak_memory = 0;      // predicted ÷ measured - 1
  double step_time = 0;        // predicted ÷ measured - 1
  double bubble_fraction = 0;  // predicted - measured
  /// The same with the prediction at probed speed; NaN without one.
  double probed_step_time = StepReport::kUnknown;
  double probed_bubble_fraction = StepReport::kUnknown;

  /// Time that judges the model: at probed speed if there is such a prediction.
  double judged_step_time() const { return std::isnan(probed_step_time) ? step_time : probed_step_time; }
  double judged_bubble_fraction() const {
    return std::isnan(probed_bubble_fraction) ? bubble_fraction : probed_bubble_fraction;
  }
};
/// The larger one of each figure.
Traffic larger(const Traffic& a, const Traffic& b);
ErrorReport compare(const PredictionReport& predicted, const MeasurementReport& measured,
                    const std::optional<ProbedReport>& probed = {});

struct MachineReport {
  std::string host;
  std::string cpu;
  std::string gpu;  // empty: none
  std::vector<std::pair<std::string, std::string>> versions;
  std::vector<std::pair<std::string, std::string>> environment;  // variables that change results
};

/// Parameters without MTP modules; those that a token goes through; those of MTP modules. 0 in older records
/// but for the first.
struct ModelReport {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  std::int64_t mtp_parameters = 0;
  double flops_per_token = 0;  // model FLOPs, forward and backward
};

/// Baseline of a record.
struct BaselineReport {
  std::string id;  // of the record that it is compared with
  /// Step time of the baseline ÷ that of this record; NaN: unknown. Not in the file: set_speedups computes
  /// them.
  double predicted = StepReport::kUnknown;
  double measured = StepReport::kUnknown;
};

struct Record {
  std::string id;
  std::vector<std::pair<std::string, std::string>> config;  // every key in documentation order
  MachineReport machine;
  Status status = Status::ok;
  std::string reason;  // empty when ok
  ModelReport model;
  std::optional<PredictionReport> prediction;
  std::optional<MeasurementReport> measurement;
  std::optional<ProbedReport> probed;  // nothing: not measured, or the profile has no measured operators
  std::optional<ErrorReport> error;
  std::optional<RecoveryReport> recovery{};  // of a run that failures were injected into
  std::optional<BaselineReport> baseline{};  // of a matrix that names one

  bool disturbed() const { return measurement && measurement->disturbance.disturbed; }
};

/// Compares each record with its baseline, if that is among them.
void set_speedups(std::vector<Record>& records);

OrderedJson to_json(const Record& record);
OrderedJson to_json(const MeasurementReport& measurement);
OrderedJson to_json(const PredictionReport& prediction);
OrderedJson to_json(const ProbedReport& probed);

/// One line without line ends inside, invalid UTF-8 replaced.
std::string to_line(const Record& record);

/// Strict, since records are untrusted: missing keys, wrong types, negative sizes, non-finite numbers and
/// unknown schemas throw InputError naming `origin` and key. Unknown keys are ignored.
Record parse_record(std::string_view line, const std::string& origin);
/// Output of a rank program for the runner: {"measurement": {...}, "probed": {...}}, the latter optional.
struct RankMeasurement {
  MeasurementReport measurement;
  std::optional<ProbedReport> probed;
};
RankMeasurement parse_measurement(std::string_view text, const std::string& origin);

}  // namespace plumbline
