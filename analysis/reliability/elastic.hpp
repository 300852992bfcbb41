// Elastic data parallelism: a group of ranks that holds all states drops out when it fails, and the others
// continue.
#pragma once

#include "analysis/reliability/goodput_simulation.hpp"

namespace plumbline {

/// Cost of a failure if replica groups drop out.
struct ElasticPlan {
  int groups = 2;
  Seconds drop;    // from the failure until the others continue: detection, and communicators without the
                   // group
  Seconds rejoin;  // how long all groups wait when a group comes back
  Seconds away;    // from the failure until it is ready to, waiting for a node apart
  Seconds step;    // of training: the one in progress is lost
  /// Groups cannot leave a running job: when one leaves or rejoins, the job restarts from its last
  /// checkpoint. Later work is lost with the step, and a group that is ready waits for the next checkpoint.
  bool from_checkpoint = false;
};

/// The plan of a job. A failed group is ready after the time of a single start. That is detection, restart
/// (or the hot swap) and reading the states, as from a checkpoint. With `recovery.elastic_restarts` all
/// groups restart when one leaves or comes back: `drop` and `rejoin` are unused.
ElasticPlan elastic_plan(const RecoveryPlan& recovery, const CheckpointPlan& checkpoint, int groups,
                         Seconds drop, Seconds rejoin, Seconds step);

/// Expected effective share, in full groups' work: (1 - f)·exp(-a·(drop + rejoin))·(1 - a·step/2)·D/(D +
/// s), where a = (1 - f)/M is the failure rate and f = (away/(M·G)) / (1 + away/(M·G)) the share of missing
/// groups. Accurate if groups rarely fail together; at least one of them always continues. From checkpoints
/// it is (1 - f)·S·exp(-a·(rejoin + v)). S is the effective_share of a job that fails at the rate a and
/// recovers in `drop`; v is the time until a save is durable; f counts half a cycle D + s more of absence.
double elastic_share(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& plan);

/// The simulated share. When the last group fails, all continue from a checkpoint that is on average half an
/// interval old, once a group is ready. `failures.kinds` says only which failures take a node.
Goodput simulate_elastic(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& elastic,
                         const TrialPlan& plan);

}  // namespace plumbline
