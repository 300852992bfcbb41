// Closed forms of the effective time of a job that fails and starts again from its last checkpoint: the share of the
// wall time in which it does work that is kept.
#pragma once

#include "analysis/reliability/job_failures.hpp"

namespace plumbline {

/// Exact for failures that are as likely at any time, also during saves and recoveries, and for nodes that are always
/// there: Daly's complete model (Future Generation Computer Systems 22, 2006) with kinds of recovery and with saves
/// alongside the work. With M = time between failures, D = interval, s = stall, v = durable and q = sum of
/// share·exp(-recovery/M): D·exp(-v/M)·q / (M·(exp((D+s)/M) - 1)).
double effective_share(const JobFailures& failures, const SavePlan& saves);

/// The interval with the largest effective_share: D/M = 1 - exp(-(D+s)/M), at least as long as a save takes.
Seconds best_interval(const JobFailures& failures, const CheckpointPlan& checkpoint);

/// Young's interval, sqrt(2·w·M) (Communications of the ACM 17, 1974): w the time of a save.
Seconds young_interval(Seconds save, Seconds between);
/// Daly's, sqrt(2·w·M) - w for w < M/2; M beyond.
Seconds daly_interval(Seconds save, Seconds between);
/// Daly's higher order: sqrt(2wM)·(1 + sqrt(w/2M)/3 + w/(2M)/9) - w for w < 2M; M beyond.
Seconds daly_higher_order_interval(Seconds save, Seconds between);
/// What saving and computing again cost at the best interval, to first order: sqrt(2·w/M).
double young_overhead(Seconds save, Seconds between);

/// E[ETTR] of arXiv:2410.21680 to first order: (1 - (u + D/2)/M) / (1 + w/D), with u = mean recovery. Negative where the
/// approximation says that nothing is kept.
double first_order_share(const JobFailures& failures, const SavePlan& saves);

/// Whether a recovery is expected to end before the next failure. Where it does not a job lives on the luck of long gaps:
/// effective_share is small but not 0.
bool makes_progress(const JobFailures& failures);

/// Nodes in repair, where nodes are repaired independently in `repair` each: a Poisson number.
double mean_nodes_in_repair(const JobFailures& failures, Seconds repair);
/// The least number that a Poisson number of this mean exceeds with a chance of at most `chance`.
int poisson_quantile(double mean, double chance);

}  // namespace plumbline
