// One rank's run: its stages and data, and the measurement of each of its steps.
#pragma once

#include <optional>
#include <vector>

#include "bench/training/checkpoints/restore.hpp"
#include "bench/training/stage/rank_stages.hpp"
#include "bench/training/trainer/computing_program.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "core/run/load_samples.hpp"
#include "core/run/step_load.hpp"
#include "core/run/step_observer.hpp"
#include "core/trace/lane_sums.hpp"

namespace plumbline::training {

/// Data handed to the transport between two readings of one rank's traffic.
Traffic difference(const Traffic& later, const Traffic& earlier);

/// One step on one rank, unless said otherwise.
struct StepMeasurement {
  Seconds time;                           // of the slowest rank
  StepLoad load;                          // of the machine
  std::vector<std::vector<double>> lost;  // by parts and ranks
  Seconds tensor_communication;
  Seconds data_communication;
  Seconds host_waits;
  VocabularySeconds vocabulary_waits{};
  std::vector<Event> events;
  std::vector<CollectiveEvent> collectives;
  std::vector<LaneSpan> lanes;
  LaneSums lane_sums{};
};

/// Collective over the world, like every member that measures.
class MeasuredRun {
 public:
  /// Takes the weights of `checkpoint`, else those of the configuration; an emulated run has none. Everything
  /// must outlive it. Throws OutOfMemory, InputError (weights, data, checkpoint).
  MeasuredRun(const RunConfig& config, const Schedule& schedule, Operators& operators,
              Communicator& communicator, Communicator& control, Arena& arena, StepObserver* observer,
              const std::optional<FoundCheckpoint>& checkpoint, WorkClock worked, HostLane* host);

  /// Runs step `index`, counted from 0 with the warm-up.
  StepMeasurement step(int index);

  /// Throws when the loss or the gradient norm of the latest step is not finite: Error with the first place.
  /// Gradients that overflow fp16 are its loss scale's business.
  void check_finite(int index, int steps, double loss);

  RankStages& stages() { return stages_; }
  ComputingProgram& computing() { return computing_; }
  /// The latest step's.
  const Traffic& traffic() const { return traffic_; }

 private:
  Receives receives() const;
  void note_lanes(Seconds origin, StepMeasurement& step);
  void start(int index);

  const Schedule& schedule_;
  Operators& operators_;
  Communicator& communicator_;
  Communicator& control_;
  RankStages stages_;
  ComputingProgram computing_;
  StepObservers observers_;
  LoadSamples load_;
  std::optional<StepData> data_;     // of a run that computes values
  std::optional<StepData> lengths_;  // of an emulated one, with packed_sequence
  Traffic traffic_;
};

}  // namespace plumbline::training
