#include "bench/recovery/recovering_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "bench/recovery/goodput_prediction.hpp"
#include "bench/recovery/injector.hpp"
#include "bench/recovery/run_history.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kMostAttempts = 10'000;

/// One start of the ranks after the other, on a clock that starts with the first.
class Attempts {
 public:
  Attempts(const FailureSpec& spec, int ranks, const CellRun& run)
      : spec_(spec),
        run_(run),
        injector_(spec, ranks,
                  fmt::format("{}={}/{}.measurement", kRecordOutVariable,
                              std::filesystem::absolute(run.folder).string(), run.name)) {}

  CellRun observed() {
    CellRun run = run_;
    run.on_line = [this](const OutputLine& line) {
      history_.hear(line.text, now());
      if (run_.on_line) run_.on_line(line);
    };
    run.go_on = [this] { return go_on(); };
    run.tick = kTick;
    return run;
  }
  void begin() {
    ending_ = disk_filled_ = false;
    history_.attempt_begins(now());
  }
  /// All ranks are gone, because of what was done to them.
  void ended(std::int64_t resumed_step) {
    const Seconds time = now();
    injector_.empty_disks();
    injector_.pass(time - *first_step_);
    history_.ended(resumed_step, time);
  }
  /// What was done to the ranks may be why they ended. A checkpoint that finds no room does not end them; what they
  /// measured, at the very end, does, and they may have met the full disk although it has room again by now.
  bool struck() const { return ending_ || disk_filled_; }
  bool asked_to_stop() const { return asked_to_stop_; }
  const RunHistory& history() const { return history_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Seconds kTick{0.01};  // failures come when they are due

  Seconds now() const { return {std::chrono::duration<double>(Clock::now() - began_).count()}; }

  bool go_on() {
    asked_to_stop_ = run_.go_on && !run_.go_on();
    if (asked_to_stop_) return false;
    const Seconds time = now();
    if (history_.running() && !first_step_) first_step_ = time;
    if (first_step_ && !history_.finished()) injure(time);
    // A rank that hangs says nothing, and the others wait for it.
    return !(ending_ && time - history_.last_sign() > spec_.hang_timeout);
  }

  void injure(Seconds time) {
    if (history_.failed_checkpoints() > failed_checkpoints_) injector_.empty_disks();
    failed_checkpoints_ = history_.failed_checkpoints();
    if (ending_) return;
    if (const auto failure = injector_.look(time - *first_step_, history_.running())) {
      (failure->kind == Injected::disk ? disk_filled_ : ending_) = true;
      history_.failed(name_of(failure->kind), failure->rank, time);
    }
  }

  const FailureSpec spec_;
  const CellRun run_;
  Injector injector_;
  RunHistory history_;
  Clock::time_point began_ = Clock::now();
  std::optional<Seconds> first_step_;
  int failed_checkpoints_ = 0;
  bool ending_ = false;       // a rank of this attempt was killed or stopped
  bool disk_filled_ = false;  // of a rank of this attempt
  bool asked_to_stop_ = false;
};

/// As measure_cell; false too when a rank could not write what was measured and its disk had been filled.
bool measure_attempt(const RunConfig& config, const CellProgram& program, const CellRun& run,
                     const Attempts& attempts, Record& record) {
  try {
    return measure_cell(config, program, run, record);
  } catch (const InputError&) {
    if (!attempts.struck()) throw;
    return false;
  }
}

}  // namespace

std::vector<std::string> checkpoint_arguments(const training::CheckpointOptions& options) {
  if (!options.on()) return {};
  std::vector<std::string> arguments = {
      "--checkpoint-dir", std::filesystem::absolute(options.folder).string(), "--keep-checkpoints",
      std::to_string(options.keep), "--checkpoints-prepared"};
  if (options.interval > 0)
    arguments.insert(arguments.end(), {"--checkpoint-interval", std::to_string(options.interval)});
  if (options.async) arguments.emplace_back("--async-save");
  if (!options.resume.empty())
    arguments.insert(arguments.end(), {"--resume-from", std::filesystem::absolute(options.resume).string()});
  return arguments;
}

bool measure_with_failures(const RunConfig& config, const CellProgram& program, const CellRun& run,
                           training::CheckpointOptions options, const FailureSpec& spec,
                           const std::optional<RecoveryCosts>& costs,
                           const std::function<void(const std::string&)>& say, Record& record) {
  if (run.hosts.size() > 1)
    throw InputError(
        "--inject-failures: ranks on other hosts cannot be reached; expected all of them on this one");
  const std::int64_t all = config.measure.warmup_steps + config.measure.steps;
  const int ranks = config.layout().world();
  const std::int64_t begun = options.resume.empty() ? 0 : training::read_facts(options.resume).step;
  const auto expected = [&](const RecoveryCosts& known) {
    return predicted_goodput(spec, ranks, options, all - begun, known);
  };
  std::optional<PredictedGoodput> predicted;
  if (costs) {
    predicted = expected(*costs);
    say(fmt::format(
        "expected goodput {:.1f} %, of nine runs in ten {:.1f} to {:.1f} %, of this seed {:.1f} %",
        100 * predicted->mean, 100 * predicted->low, 100 * predicted->high, 100 * predicted->of_seed));
  }
  Attempts attempts(spec, ranks, run);
  const CellRun observed = attempts.observed();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    CellProgram started = program;
    for (std::string& argument : checkpoint_arguments(options))
      started.command.push_back(std::move(argument));
    attempts.begin();
    const bool ended = measure_attempt(config, started, observed, attempts, record);
    if (attempts.asked_to_stop()) return false;
    if (ended && record.status == Status::ok) {
      RecoveryReport report = attempts.history().report();
      report.mtbf = spec.mtbf;
      report.seed = spec.seed;
      report.predicted = predicted ? *predicted : expected(report.costs);
      record.recovery = std::move(report);
      return true;
    }
    if (!attempts.struck()) return ended;  // it failed by itself: what it said is the reason
    training::remove_unfinished(options.folder);
    // A run that was hit behind its last step makes the last steps again: it has not said what it measured.
    for (const std::string& remark : training::choose_checkpoint(options, all)) say("note: " + remark);
    const std::int64_t done = options.resume.empty() ? 0 : training::read_facts(options.resume).step;
    attempts.ended(done);
    say(fmt::format("note: {} of rank {}: starting again after step {}",
                    attempts.history().last_failure().kind, attempts.history().last_failure().rank, done));
  }
  throw Error(fmt::format("--inject-failures: no end after {} starts; a longer mtbf lets the run get on",
                          kMostAttempts));
}

}  // namespace plumbline
