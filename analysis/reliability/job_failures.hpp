// Failures and recovery of a job: the inputs of closed forms and simulation.
#pragma once

#include <optional>
#include <vector>

#include "analysis/reliability/fleet.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// Bytes of a full checkpoint per parameter: 16-bit weights, fp32 master weights and both moments of Adam.
/// The published torch_dist sizes of five models are this (results/published/reliability.csv).
inline constexpr std::int64_t kCheckpointBytesPerParameter = 14;

/// Cost of a checkpoint.
struct CheckpointPlan {
  Bytes size;
  BytesPerSecond write;  // of the whole job to its storage
  BytesPerSecond read;
  /// Training time lost to a save that runs alongside the training; nothing: a save blocks until it is
  /// written.
  std::optional<Seconds> stall;
};

/// Delays between a failure and the next step.
struct RecoveryPlan {
  Seconds detect;   // until the failure is noticed, unless a cause says otherwise
  Seconds restart;  // until all ranks could continue, the reading of the checkpoint apart
  /// The same with a hot spare: a node on which the program already runs.
  std::optional<Seconds> hot_swap;
  /// Data-parallel groups that hold all states: a failed one drops out and the others continue. Nothing: all
  /// restart from the last checkpoint.
  std::optional<int> elastic_groups;
  /// Groups leave and come back by a start of all from the last checkpoint.
  bool elastic_restarts = false;
};

/// Failures of one kind: their cost.
struct FailureKind {
  double share = 0;  // of all failures; they sum to 1
  Seconds recovery;  // from the failure to the next step
  bool takes_node = true;
};

/// When a job fails and how long it takes to recover. A failure during a recovery begins the recovery again.
struct JobFailures {
  Seconds between;  // mean time between failures
  std::vector<FailureKind> kinds;

  /// Mean over all kinds, when nothing interrupts them.
  Seconds mean_recovery() const;
  /// Share of failures that take a node.
  double node_share() const;
};

/// A save every `interval` of work.
struct SavePlan {
  Seconds interval;   // work between two saves
  Seconds stall;      // that the job does not work for a save
  Seconds durable{};  // from then until the checkpoint can be read back
};

/// Save plan of a checkpoint plan at this interval.
SavePlan saves_of(const CheckpointPlan& plan, Seconds interval);

/// The failures of a job of `gpus`: causes with the same recovery count as one kind. The whole job starts
/// again; see elastic.hpp for the other way.
JobFailures job_failures(const Fleet& fleet, double gpus, const RecoveryPlan& recovery,
                         const CheckpointPlan& checkpoint);

}  // namespace plumbline
