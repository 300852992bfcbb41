#include "analysis/reliability/job_failures.hpp"

#include <algorithm>

namespace plumbline {

Seconds JobFailures::mean_recovery() const {
  Seconds mean{};
  for (const FailureKind& kind : kinds) mean += kind.share * kind.recovery;
  return mean;
}

double JobFailures::node_share() const {
  double share = 0;
  for (const FailureKind& kind : kinds) share += kind.takes_node ? kind.share : 0;
  return share;
}

SavePlan saves_of(const CheckpointPlan& plan, Seconds interval) {
  const Seconds write = plan.size / plan.write;
  if (!plan.stall) return {interval, write};
  return {interval, *plan.stall, write};
}

JobFailures job_failures(const Fleet& fleet, double gpus, const RecoveryPlan& recovery,
                         const CheckpointPlan& checkpoint) {
  JobFailures job{fleet.time_between_failures(gpus), {}};
  const double all = fleet.per_node_day();
  const Seconds read = checkpoint.size / checkpoint.read;
  for (const FailureCause& cause : fleet.causes) {
    const Seconds detect = cause.detect.value < 0 ? recovery.detect : cause.detect;
    const Seconds begin = cause.takes_node && recovery.hot_swap ? *recovery.hot_swap : recovery.restart;
    const FailureKind kind{cause.per_node_day / all, detect + begin + read, cause.takes_node};
    const auto same = std::find_if(job.kinds.begin(), job.kinds.end(), [&](const FailureKind& each) {
      return each.recovery == kind.recovery && each.takes_node == kind.takes_node;
    });
    if (same == job.kinds.end()) {
      job.kinds.push_back(kind);
    } else {
      same->share += kind.share;
    }
  }
  return job;
}

}  // namespace plumbline
