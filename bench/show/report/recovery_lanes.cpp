#include "bench/show/report/recovery_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline {
namespace {

enum Lane { kTraining, kFewer, kLost, kSaves, kFailures, kDetection, kWaiting, kRestart };

/// Goes through the run from its first step to its last.
class LaneBuilder {
 public:
  explicit LaneBuilder(const RecoveryReport& report) : report_(report), steps_(report.begun_step) {}

  RecoveryLanes build() {
    built_.progress.push_back({{}, static_cast<double>(steps_)});
    for (const SaveReport& save : report_.saves) {
      add(kSaves, save.at, save.at + std::max(save.stall, save.durable),
          fmt::format("checkpoint of step {}", save.step));
    }
    for (const FailureReport& failure : report_.failures) add(failure);
    train_until(report_.total, report_.begun_step + report_.steps);
    built_.lanes.erase(std::remove_if(built_.lanes.begin(), built_.lanes.end(),
                                      [](const RecoveryLane& lane) { return lane.spans.empty(); }),
                       built_.lanes.end());
    return std::move(built_);
  }

 private:
  void add(Lane lane, Seconds begin, Seconds end, std::string what) {
    built_.lanes[lane].spans.push_back({begin, end, std::move(what)});
  }
  void add_if_long(Lane lane, Seconds begin, Seconds end, std::string what) {
    if (end > begin) add(lane, begin, end, std::move(what));
  }

  /// Steps that are kept, from where the ranks have started.
  void train_until(Seconds end, std::int64_t steps) {
    if (end <= now_) return;
    for (const SaveReport& save : report_.saves) {
      if (save.at > now_ && save.at < end)
        built_.progress.push_back({save.at, static_cast<double>(save.step)});
    }
    const auto& reduced = report_.costs.reduced;
    const bool fewer_now = std::any_of(reduced.begin(), reduced.end(),
                                       [&](const ReducedSteps& size) { return size.replicas == replicas_; });
    add(fewer_now ? kFewer : kTraining, now_, end,
        fmt::format("steps {} to {}{}", steps_ + 1, steps,
                    fewer_now ? fmt::format(" with {} replicas", replicas_) : ""));
    built_.progress.push_back({end, static_cast<double>(steps)});
    now_ = end;
  }

  void add(const FailureReport& failure) {
    const bool is_return = failure.kind == "return";
    const std::string what =
        is_return ? std::string("return") : fmt::format("{} of rank {}", failure.kind, failure.rank);
    if (!is_return) add(kFailures, failure.at, failure.at, what);
    if (failure.detect + failure.waiting + failure.restart <= Seconds{}) return;  // it ended no rank
    // A full disk ends ranks later, behind the checkpoint that they resume from.
    Seconds hit = failure.at;
    for (const SaveReport& save : report_.saves) {
      if (failure.kind == "disk" && save.step == failure.resumed_step)
        hit = std::max(hit, save.at + save.stall);
    }
    train_until(hit - failure.lost, failure.resumed_step);
    const std::int64_t reached = failure.resumed_step + failure.lost_steps;
    if (hit > now_) {
      add(kLost, now_, hit, fmt::format("{} steps after step {}", failure.lost_steps, failure.resumed_step));
      built_.progress.push_back({hit, static_cast<double>(reached)});
    }
    const Seconds gone = hit + failure.detect;
    const Seconds start = gone + failure.waiting;
    now_ = start + failure.restart;
    add_if_long(kDetection, hit, gone, what);
    add_if_long(kWaiting, gone, start, "until enough ranks are available");
    add_if_long(kRestart, start, now_, fmt::format("after {}", what));
    steps_ = failure.resumed_step;
    replicas_ = failure.replicas;
    for (const Seconds time : {hit, now_}) built_.progress.push_back({time, static_cast<double>(steps_)});
  }

  const RecoveryReport& report_;
  RecoveryLanes built_{{{"steps", "span-steps"},
                        {"steps, fewer replicas", "span-fewer"},
                        {"lost work", "span-lost"},
                        {"checkpoints", "span-save"},
                        {"failures", "span-failure"},
                        {"detection", "span-detect"},
                        {"waiting", "span-wait"},
                        {"restart", "span-restart"}},
                       {}};
  Seconds now_;
  std::int64_t steps_;  // done when the ranks started
  int replicas_ = 0;    // all
};

}  // namespace

RecoveryLanes recovery_lanes(const RecoveryReport& report) {
  return LaneBuilder(report).build();
}

}  // namespace plumbline
