#include "bench/recovery/recovering_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "analysis/reliability/effective_time.hpp"
#include "bench/recovery/injector.hpp"
#include "bench/recovery/run_history.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kMostAttempts = 10'000;
constexpr Seconds kNever{1e12};

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
    return run;
  }
  void begin() {
    struck_ = false;
    history_.attempt_begins(now());
  }
  void ended(std::int64_t resumed_step) {
    injector_.empty_disk();
    history_.ended(resumed_step, now());
  }
  /// The ranks ended because of what was done to them. A checkpoint that finds no room does not end them; what they
  /// measured, at the very end, does.
  bool struck() const { return struck_ || injector_.disk_is_full(); }
  bool asked_to_stop() const { return asked_to_stop_; }
  const RunHistory& history() const { return history_; }

 private:
  using Clock = std::chrono::steady_clock;
  Seconds now() const { return {std::chrono::duration<double>(Clock::now() - began_).count()}; }

  bool go_on() {
    asked_to_stop_ = run_.go_on && !run_.go_on();
    if (asked_to_stop_) return false;
    const Seconds time = now();
    if (history_.running() && !first_step_) first_step_ = time;
    if (history_.failed_checkpoints() > failed_checkpoints_) injector_.empty_disk();
    failed_checkpoints_ = history_.failed_checkpoints();
    if (!first_step_) return true;
    if (!struck_) {
      if (const auto injury = injector_.look(time - *first_step_)) {
        struck_ = injury->kind != Injected::disk;
        history_.failed(name_of(injury->kind), injury->rank, time);
      }
    }
    // A rank that hangs says nothing, and the others wait for it.
    return !(struck_ && time - history_.last_sign() > spec_.hang_timeout);
  }

  const FailureSpec spec_;
  const CellRun run_;
  Injector injector_;
  RunHistory history_;
  Clock::time_point began_ = Clock::now();
  std::optional<Seconds> first_step_;
  int failed_checkpoints_ = 0;
  bool struck_ = false;
  bool asked_to_stop_ = false;
};

/// Failures that ended the ranks; a full disk seldom does.
std::ptrdiff_t ends_of(const RecoveryReport& report) {
  return std::count_if(report.failures.begin(), report.failures.end(),
                       [](const FailureReport& failure) { return failure.detect > Seconds{}; });
}

/// Both predictions, from the failures that end the ranks.
void predict_goodput(const FailureSpec& spec, const training::CheckpointOptions& options,
                     RecoveryReport& report) {
  const auto kinds = static_cast<double>(spec.kinds.size());
  const auto harmless = static_cast<double>(std::count(spec.kinds.begin(), spec.kinds.end(), Injected::disk));
  const auto came = static_cast<double>(ends_of(report));
  report.predicted = harmless == kinds
                         ? predicted_goodput(report, options, kNever)
                         : predicted_goodput(report, options, spec.mtbf * (kinds / (kinds - harmless)));
  report.predicted_observed = predicted_goodput(report, options, came > 0 ? report.total / came : kNever);
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

double predicted_goodput(const RecoveryReport& measured, const training::CheckpointOptions& options,
                         Seconds between) {
  const auto ended = static_cast<double>(std::max<std::ptrdiff_t>(ends_of(measured), 1));
  JobFailures failures;
  failures.between = between;
  failures.kinds = {{1, (measured.detect + measured.restart) / ended, false}};
  const double steps = options.interval > 0 ? options.interval : static_cast<double>(measured.steps);
  SavePlan saves{measured.step * steps, measured.stall};
  if (options.async) saves.durable = std::max(Seconds{}, measured.durable - measured.stall);
  return saves.interval.value > 0 ? effective_share(failures, saves) : 0;
}

bool measure_with_failures(const RunConfig& config, const CellProgram& program, const CellRun& run,
                           training::CheckpointOptions options, const FailureSpec& spec,
                           const std::function<void(const std::string&)>& say, Record& record) {
  if (run.hosts.size() > 1)
    throw InputError(
        "--inject-failures: ranks on other hosts cannot be reached; expected all of them on this one");
  const std::int64_t all = config.measure.warmup_steps + config.measure.steps;
  Attempts attempts(spec, config.layout().world(), run);
  const CellRun observed = attempts.observed();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    CellProgram started = program;
    for (std::string& argument : checkpoint_arguments(options))
      started.command.push_back(std::move(argument));
    attempts.begin();
    const bool ended = measure_cell(config, started, observed, record);
    if (attempts.asked_to_stop()) return false;
    if (ended && record.status == Status::ok) {
      RecoveryReport report = attempts.history().report();
      report.mtbf = spec.mtbf;
      report.seed = spec.seed;
      predict_goodput(spec, options, report);
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
