// Runs training steps of one configuration on one rank and reports the measurements.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/training/checkpoints/checkpoint_options.hpp"
#include "bench/training/stage/rank_stages.hpp"
#include "bench/training/trainer/computing_program.hpp"
#include "bench/training/trainer/routing_file.hpp"
#include "core/run/processor_energy.hpp"
#include "core/run/step_load.hpp"
#include "core/run/step_observer.hpp"
#include "core/trace/lane_sums.hpp"
#include "core/trace/trace.hpp"

namespace plumbline::training {

/// Total of the tensors of one name; no bytes: there is none. Plain memory, so that it can travel.
struct PeakHolder {
  char name[40] = {};
  Category category = Category::workspace;
  Bytes bytes;
  std::int64_t tensors = 0;
};
constexpr std::size_t kPeakHolders = 6;

/// Memory of one rank at its peak.
struct MeasuredMemory {
  MemoryBreakdown at_peak;
  Bytes host;                                      // at most in the host's, of offloaded activations
  Bytes reserved;                                  // taken from the system by the arena
  std::array<PeakHolder, kPeakHolders> largest{};  // at the peak, biggest first
};

struct TrainingResult {
  std::vector<Seconds> step_times;                     // timed steps, barrier to barrier
  std::vector<StepLoad> step_loads;                    // other load of the machine meanwhile
  std::vector<std::vector<std::vector<double>>> lost;  // by step, its parts and ranks, as from lost_by_part()
  std::vector<double> losses;                // of every step, warm-up and those before a checkpoint included
  std::vector<double> module_losses;         // of the MTP modules, in the last step
  double gradient_norm = 0;                  // of the last step, before clipping
  std::optional<LossScaleState> loss_scale;  // after the last step, with fp16
  Trace trace;                               // of the timed step with the median time
  /// In that step: shares of the busy time of all ranks, times the mean busy time in `trace`.
  Seconds tensor_communication;
  Seconds data_communication;            // likewise, waiting for gathers and reductions over the data group
  Seconds host_waits;                    // likewise, for copies to and from the host
  VocabularySeconds vocabulary_waits{};  // likewise, for the collectives of a split vocabulary
  std::vector<MeasuredMemory> memory;    // by world rank, peak over all steps
  /// Memory during and after each action of the last step, by pipeline rank (tensor and data coordinate 0),
  /// in the order of schedule.actions.
  std::vector<std::vector<MemorySample>> samples;
  /// Lane spans of every pipeline rank (tensor and data coordinate 0) in the step of `trace`; empty if no
  /// observer has noted any.
  std::vector<std::vector<LaneSpan>> lanes;
  LaneSums lane_sums{};  // the mean over the same ranks
  /// Seconds of every compute action of all timed steps without waiting, by world rank (ComputingProgram);
  /// empty: unknown.
  std::vector<std::vector<double>> computing;
  std::vector<LayerLoad> expert_load;          // of MoE layers, in the last step
  std::optional<PackedAttention> attention;    // executed in all steps, with packed_sequence
  std::optional<ProcessorEnergy> energy;       // of this rank's host in timed steps; nothing: emulated
  Traffic traffic;                             // of this rank, everything
  Traffic step_traffic;                        // of this rank, the last step with an update, else the last
  std::optional<CheckpointCosts> checkpoints;  // of a run that writes or has read some; whole on world rank 0
};

/// Called on world rank 0 after each step: steps done, steps in all, warm-up included, and the step's mean
/// loss.
using StepProgress = std::function<void(int done, int all, double loss)>;

/// Builds the rank's stages, loads weights and data of the configuration and runs warmup_steps + steps steps
/// of `schedule` (with transfers and step end). `communicator` is that of the steps; `control`, which may be
/// the same, carries the measurements. The emulated backend gets neither weights nor data, and its memory is
/// never touched. Collective over the world; every rank gets the same result except for the traffic.
/// `observer` sees every step; `worked` counts the rank's computing time (ComputingProgram). A resumed run
/// makes only the missing steps; warm-up ones among them are not timed. Throws OutOfMemory, InputError
/// (weights, data, outputs, checkpoint), Error (a loss or gradient norm that is not finite included). `host`
/// as in RankStages.
TrainingResult train(const RunConfig& config, const Schedule& schedule, Operators& operators,
                     Communicator& communicator, Communicator& control, std::unique_ptr<MemorySource> memory,
                     const StepProgress& progress, StepObserver* observer = nullptr,
                     const CheckpointOptions& checkpoints = {}, WorkClock worked = {},
                     HostLane* host = nullptr);

/// The samples of the rank at tensor and data coordinate 0 of every pipeline rank, on all ranks. Collective.
std::vector<std::vector<MemorySample>> gather_samples(const Schedule& schedule,
                                                      const std::vector<MemorySample>& mine,
                                                      Communicator& control);

}  // namespace plumbline::training
