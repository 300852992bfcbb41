#include "bench/run/recovery/attempts.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <thread>
#include <utility>

namespace plumbline {
namespace {

constexpr Seconds kTick{0.01};  // failures come when they are due

}  // namespace

Attempts::Attempts(const FailureSpec& spec, int ranks, ReplicaSizes sizes, const CellRun& run)
    : spec_(spec),
      ranks_(ranks),
      sizes_(std::move(sizes)),
      run_(run),
      injector_(spec, ranks,
                fmt::format("{}={}/{}.measurement", kRecordOutVariable,
                            std::filesystem::absolute(run.folder).string(), run.name)),
      replicas_(sizes_.all()) {}

CellRun Attempts::observed() {
  CellRun run = run_;
  run.on_line = [this](const OutputLine& line) {
    history_.hear(line.text, now());
    if (run_.on_line) run_.on_line(line);
  };
  run.go_on = [this] { return go_on(); };
  run.tick = kTick;
  return run;
}

void Attempts::begin() {
  ending_ = disk_filled_ = false;
  returned_.reset();
  grown_.reset();
  history_.attempt_begins(now(), replicas_);
}

/// Replicas that there are ranks for.
int Attempts::possible(Seconds time) {
  while (!replaced_.empty() && replaced_.front() <= time) replaced_.pop_front();
  return sizes_.without(static_cast<int>(replaced_.size()));
}

void Attempts::ended(std::int64_t resumed_step) {
  const Seconds time = now();
  injector_.empty_disks();
  if (returned_) {
    history_.failed("return", 0, *returned_);
    history_.ended(resumed_step, *returned_);
  } else {
    injector_.pass(time - *first_step_);
    history_.ended(resumed_step, time);
    // A disk that was full has room again.
    if (ending_ && spec_.replacement > Seconds{}) replaced_.push_back(time + spec_.replacement);
  }
  replicas_ = possible(time);
}

bool Attempts::wait() {
  if (replicas_ > 0) return true;
  while (possible(now()) == 0) {
    if (run_.go_on && !run_.go_on()) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(kTick.value));
  }
  const Seconds time = now();
  injector_.pass(time - *first_step_);
  history_.waited(time);
  replicas_ = possible(time);
  return true;
}

bool Attempts::go_on() {
  asked_to_stop_ = run_.go_on && !run_.go_on();
  if (asked_to_stop_) return false;
  const Seconds time = now();
  if (history_.running() && !first_step_) first_step_ = time;
  if (first_step_ && !history_.finished()) injure(time);
  if (to_return(time)) {
    returned_ = time;
    return false;
  }
  // A hanging rank is silent, and the others wait for it.
  return !(ending_ && time - history_.last_sign() > spec_.hang_timeout);
}

void Attempts::injure(Seconds time) {
  if (history_.failed_checkpoints() > failed_checkpoints_) injector_.empty_disks();
  failed_checkpoints_ = history_.failed_checkpoints();
  if (ending_) return;
  if (const auto failure = injector_.look(time - *first_step_, history_.running(), there())) {
    (failure->kind == Injected::disk ? disk_filled_ : ending_) = true;
    history_.failed(name_of(failure->kind), failure->rank, time);
  }
}

/// Ranks are there for more replicas, and a checkpoint has completed since.
bool Attempts::to_return(Seconds time) {
  if (ending_ || history_.finished() || possible(time) <= replicas_) return false;
  if (!grown_) grown_ = time;
  return history_.last_complete() >= *grown_;
}

}  // namespace plumbline
