// Closed forms of the effective time of a job that fails and restarts from its last checkpoint. Effective
// time: the share of the wall time that goes into work that is kept.
#pragma once

#include "analysis/reliability/job_failures.hpp"

namespace plumbline {

/// Exact for failures that are equally likely at any time, also during saves and recoveries, and for nodes
/// that are always available: Daly's complete model (Future Generation Computer Systems 22, 2006) with kinds
/// of recovery and with asynchronous saves. With M = time between failures, D = interval, s = stall, v =
/// durable and q = sum of share·exp(-recovery/M):
///   D·exp(-v/M)·q / (M·(exp((D+s)/M) - 1))
double effective_share(const JobFailures& failures, const SavePlan& saves);

/// The interval with the largest effective_share: D/M = 1 - exp(-(D+s)/M), at least as long as a save takes.
Seconds best_interval(const JobFailures& failures, const CheckpointPlan& checkpoint);

/// Young's interval, sqrt(2·w·M) (Communications of the ACM 17, 1974): w the time of a save.
Seconds young_interval(Seconds save, Seconds between);
/// Daly's, sqrt(2·w·M) - w for w < M/2; M beyond.
Seconds daly_interval(Seconds save, Seconds between);
/// Daly's higher order: sqrt(2wM)·(1 + sqrt(w/2M)/3 + w/(2M)/9) - w for w < 2M; M beyond.
Seconds daly_higher_order_interval(Seconds save, Seconds between);
/// Overhead of saves and lost work at the best interval, to first order: sqrt(2·w/M).
double young_overhead(Seconds save, Seconds between);

/// E[ETTR] of arXiv:2410.21680 to first order: (1 - (u + D/2)/M) / (1 + w/D), with u = mean recovery.
/// Negative if the approximation leaves no kept work.
double first_order_share(const JobFailures& failures, const SavePlan& saves);

/// True if a recovery is expected to end before the next failure. Otherwise the job depends on rare long
/// gaps, and its effective_share is small but not 0.
bool makes_progress(const JobFailures& failures);

/// Nodes in repair, if nodes are repaired independently in `repair` each: a Poisson number.
double mean_nodes_in_repair(const JobFailures& failures, Seconds repair);
/// The least number that a Poisson number of this mean exceeds with a chance of at most `chance`.
int poisson_quantile(double mean, double chance);

}  // namespace plumbline
