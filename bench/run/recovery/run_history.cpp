#include "bench/run/recovery/run_history.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace plumbline {
namespace {

Seconds mean_of(const std::vector<Seconds>& times) {
  double sum = 0;
  for (const Seconds time : times) sum += time.value;
  return {times.empty() ? 0 : sum / static_cast<double>(times.size())};
}

constexpr std::size_t kMostSaves = 10'000;

}  // namespace

Seconds RunHistory::Work::step() const {
  if (kept > 0) return kept_time / static_cast<double>(kept);
  return made > 0 ? made_time / static_cast<double>(made) : Seconds{};
}

void RunHistory::attempt_begins(Seconds now, int replicas) {
  last_sign_ = now;
  last_complete_ = kNever;
  replicas_ = replicas;
  all_replicas_ = std::max(all_replicas_, replicas);
  if (open_) failures_[*open_].replicas = replicas;
}

void RunHistory::hear(std::string_view line, Seconds now) {
  const std::string text(line);
  long long step = 0;
  long long all = 0;
  double stall = 0;
  double durable = 0;
  if (std::sscanf(text.c_str(), "next is step %lld of %lld", &step, &all) == 2) {
    ready_ = true;
    ready_at_ = now;
    first_step_ = step - 1;
    moments_.clear();
    if (!first_ready_) {
      first_ready_ = now;
      begun_ = first_step_;
      first_start_ = now - last_sign_;
    }
    if (open_) {
      failures_[*open_].restart = now - gone_at_;
      restarts_.push_back(now - gone_at_);
    }
    open_.reset();
  } else if (std::sscanf(text.c_str(), "step %lld of %lld", &step, &all) == 2) {
    moments_.push_back({step, now, {}});
    finished_ = step == all;
  } else if (std::sscanf(text.c_str(),
                         "checkpoint of step %lld complete: stood still %lf s, durable after %lf s", &step,
                         &stall, &durable) == 3) {
    stalls_.push_back({stall});
    durable_.push_back({durable});
    for (Moment& moment : moments_) {
      if (moment.step != step) continue;
      moment.stall = {stall};
      if (saves_.size() < kMostSaves) saves_.push_back({step, moment.at, {stall}, {durable}});
    }
    last_complete_ = now;
  } else if (line.starts_with("note: checkpoint of step ")) {
    ++failed_checkpoints_;
  } else {
    return;
  }
  last_sign_ = now;
}

void RunHistory::failed(std::string_view kind, int rank, Seconds now) {
  FailureReport failure;
  failure.kind = kind;
  failure.rank = rank;
  failure.at = now;  // made relative in report()
  failure.replicas = replicas_;
  failures_.push_back(std::move(failure));
}

Seconds RunHistory::begin_of_lost_work(std::int64_t resumed_step) const {
  Seconds begin = ready_at_;
  // Not of that step alone: under load mpirun may tear a rank's line in two, which then cannot be read.
  for (const Moment& moment : moments_)
    if (moment.step <= resumed_step) begin = moment.at + moment.stall;
  return begin;
}

RunHistory::WorkOfSizes RunHistory::work_with(std::int64_t kept_step) const {
  WorkOfSizes work = work_;
  Work& mine = work[replicas_];
  Seconds stalls;
  Work present;
  for (const Moment& moment : moments_) {
    present.made = moment.step - first_step_;
    present.made_time = moment.at - ready_at_ - stalls;
    if (moment.step <= kept_step) {
      present.kept = present.made;
      present.kept_time = present.made_time;
    }
    stalls += moment.stall;
  }
  mine.made += present.made;
  mine.made_time += present.made_time;
  mine.kept += present.kept;
  mine.kept_time += present.kept_time;
  return work;
}

void RunHistory::waited(Seconds now) {
  failures_.back().waiting = now - gone_at_;
  gone_at_ = now;
}

void RunHistory::ended(std::int64_t resumed_step, Seconds now) {
  FailureReport& failure = failures_.back();
  failure.detect = now - failure.at;
  failure.resumed_step = resumed_step;
  if (ready_) {
    const Seconds begin = begin_of_lost_work(resumed_step);
    failure.lost = {std::max(0.0, (failure.at - begin).value)};
    // A full disk ends ranks late, if at all: a checkpoint may have completed meanwhile.
    failure.detect = now - std::max(failure.at, begin);
    detections_[failure.kind].push_back(failure.detect);
    work_ = work_with(resumed_step);
    for (const Moment& moment : moments_) {
      if (moment.step > resumed_step) ++failure.lost_steps;
      if (moment.step <= resumed_step) kept_stalls_ = kept_stalls_ + moment.stall;
    }
    // The last checkpoint that counts may be older than this attempt: then all of it was lost.
    if (resumed_step < first_step_) failure.lost_steps = std::ssize(moments_);
  } else if (open_) {
    // Hit while it was starting again: until then it was the restart of the one before.
    failures_[*open_].restart = failure.at - gone_at_;
  }
  open_ = failures_.size() - 1;
  gone_at_ = now;
  ready_ = false;
  finished_ = false;
  moments_.clear();
}

Seconds RunHistory::detection_of(const std::string& kind) const {
  const auto found = detections_.find(kind);
  return found == detections_.end() ? Seconds{} : mean_of(found->second);
}

RecoveryReport RunHistory::report() const {
  RecoveryReport report;
  const Seconds begin = first_ready_.value_or(Seconds{});
  report.begun_step = begun_;
  report.steps = (moments_.empty() ? first_step_ : moments_.back().step) - begun_;
  const Seconds end = moments_.empty() ? last_sign_ : moments_.back().at;
  report.total = end - begin;
  report.stalls = kept_stalls_;
  for (std::size_t i = 0; i + 1 < moments_.size(); ++i) report.stalls = report.stalls + moments_[i].stall;
  report.failures = failures_;
  for (FailureReport& failure : report.failures) {
    report.lost = report.lost + failure.lost;
    report.detect = report.detect + failure.detect;
    report.restart = report.restart + failure.restart;
    report.waiting += failure.waiting;
    failure.at = {std::max(0.0, (failure.at - begin).value)};
  }
  const WorkOfSizes work = work_with(moments_.empty() ? 0 : moments_.back().step);
  // If no step was made with all replicas, the steps that were made are the reference.
  const Seconds whole =
      (work.contains(all_replicas_) && work.at(all_replicas_).made > 0 ? work.at(all_replicas_)
                                                                       : work.begin()->second)
          .step();
  for (const auto& [replicas, made] : work) {
    if (replicas == all_replicas_ || made.kept == 0) continue;
    report.missing += made.kept_time - whole * static_cast<double>(made.kept);
    report.costs.reduced.push_back({replicas, made.kept, made.step()});
  }
  const double rest = (report.total - report.stalls - report.lost - report.detect - report.restart -
                       report.waiting - report.missing)
                          .value;
  report.useful = {std::max(0.0, rest)};
  report.costs.step = {report.useful.value / static_cast<double>(std::max<std::int64_t>(report.steps, 1))};
  report.saves = saves_;
  for (SaveReport& save : report.saves) save.at = save.at - begin;
  report.costs.stall = mean_of(stalls_);
  report.costs.durable = mean_of(durable_);
  report.costs.restart = restarts_.empty() ? first_start_ : mean_of(restarts_);
  report.costs.detect_kill = detection_of("kill");
  report.costs.detect_hang = detection_of("hang");
  report.goodput = report.total.value > 0 ? report.useful.value / report.total.value : 0;
  return report;
}

}  // namespace plumbline
