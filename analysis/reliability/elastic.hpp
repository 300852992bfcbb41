// Elastic data parallelism: a group of ranks that holds all states drops out when it fails, and the others go on.
#pragma once

#include "analysis/reliability/goodput_simulation.hpp"

namespace plumbline {

/// What a failure costs where groups drop out.
struct ElasticPlan {
  int groups = 2;
  Seconds drop;    // from the failure until the others go on: detection, and communicators without the group
  Seconds rejoin;  // how long everybody waits when a group comes back
  Seconds away;    // from the failure until it is ready to, waiting for a node apart
  Seconds step;    // of training: the one in progress is lost
  /// Groups cannot leave a running job: without one, and with it again, the job starts from its last checkpoint. What came after
  /// that is lost with the step, and a group that is ready waits for the next one.
  bool from_checkpoint = false;
};

/// The plan of a job. A group is ready again when one that starts alone would be: detection, restart (or the hot swap)
/// and the states, which it reads as everybody reads a checkpoint. With `recovery.elastic_restarts` everybody does so when a group
/// leaves or comes back: `drop` and `rejoin` are not asked.
ElasticPlan elastic_plan(const RecoveryPlan& recovery, const CheckpointPlan& checkpoint, int groups,
                         Seconds drop, Seconds rejoin, Seconds step);

/// Expected effective share, in full groups' work: (1 - f)·exp(-a·(drop + rejoin))·(1 - a·step/2)·D/(D + s), where
/// a = (1 - f)/M is the rate of failures and f = (away/(M·G)) / (1 + away/(M·G)) the share of groups that are missing.
/// Good where groups rarely fail together; at least one of them always goes on. From checkpoints it is
/// (1 - f)·S·exp(-a·(rejoin + v)), where S is the effective_share of a job that fails at the rate a and recovers in `drop`, v is
/// how long a save takes until it is durable, and f counts half a cycle D + s more of being away.
double elastic_share(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& plan);

/// The simulated one. When the last group fails everybody goes on from a checkpoint that is on average half an interval
/// old, once a group is ready. `failures.kinds` says only which failures take a node.
Goodput simulate_elastic(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& elastic,
                         const TrialPlan& plan);

}  // namespace plumbline
