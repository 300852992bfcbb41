#include "bench/run/recovery/recovering_run.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "bench/run/recovery/attempts.hpp"
#include "bench/run/recovery/goodput_prediction.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr int kMostAttempts = 10'000;

/// As measure_cell; false too when a rank could not write its measurement and its disk had been filled.
bool measure_attempt(const RunConfig& config, const CellProgram& program, const CellRun& run,
                     const Attempts& attempts, Record& record) {
  try {
    return measure_cell(config, program, run, record);
  } catch (const OutputError&) {
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
                           const ReplicaSizes& sizes, const std::optional<RecoveryCosts>& costs,
                           const std::function<void(const std::string&)>& say, Record& record) {
  if (run.hosts.size() > 1)
    throw InputError(
        "--inject-failures: ranks on other hosts cannot be reached; expected all of them on this one");
  const std::int64_t all = config.measure.warmup_steps + config.measure.steps;
  const int ranks = config.layout().world();
  const std::int64_t begun = options.resume.empty() ? 0 : training::read_facts(options.resume).step;
  const auto expected = [&](const RecoveryCosts& known) {
    return predicted_goodput(spec, ranks, sizes, options, all - begun, known);
  };
  std::optional<PredictedGoodput> predicted;
  if (costs) {
    predicted = expected(*costs);
    say(fmt::format(
        "expected goodput {:.1f} %, of nine runs in ten {:.1f} to {:.1f} %, of this seed {:.1f} %",
        100 * predicted->mean, 100 * predicted->low, 100 * predicted->high, 100 * predicted->of_seed));
  }
  Attempts attempts(spec, ranks, sizes, run);
  const CellRun observed = attempts.observed();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    CellProgram started = program;
    for (std::string& argument : checkpoint_arguments(options))
      started.command.push_back(std::move(argument));
    attempts.begin();
    const RunConfig split = sizes.slower.empty() ? config : with_replicas(config, attempts.replicas());
    const bool ended = measure_attempt(split, started, observed, attempts, record);
    if (attempts.asked_to_stop()) return false;
    if (ended && record.status == Status::ok) {
      RecoveryReport report = attempts.history().report();
      report.mtbf = spec.mtbf;
      report.replacement = spec.replacement;
      report.seed = spec.seed;
      report.predicted = predicted ? *predicted : expected(report.costs);
      record.recovery = std::move(report);
      if (attempts.replicas() < sizes.all()) {
        record.error.reset();
        say(fmt::format("note: the run ended with {} of {} replicas: what was measured is of these",
                        attempts.replicas(), sizes.all()));
      }
      return true;
    }
    // Otherwise it failed by itself: its message is the reason.
    if (!attempts.struck() && !attempts.returned()) return ended;
    training::remove_unfinished(options.folder);
    // A run that was hit after its last step makes the last steps again: it has not reported its measurement.
    for (const std::string& remark : training::choose_checkpoint(options, all)) say("note: " + remark);
    const std::int64_t done = options.resume.empty() ? 0 : training::read_facts(options.resume).step;
    attempts.ended(done);
    if (!attempts.wait()) return false;
    const FailureReport& last = attempts.history().last_failure();
    const std::string why =
        attempts.returned() ? "more replicas can go on" : fmt::format("{} of rank {}", last.kind, last.rank);
    const std::string with =
        sizes.slower.empty() ? "" : fmt::format(" with {} of {} replicas", attempts.replicas(), sizes.all());
    say(fmt::format("note: {}: starting again after step {}{}", why, done, with));
  }
  throw Error(fmt::format("--inject-failures: no end after {} starts; a longer mtbf lets the run get on",
                          kMostAttempts));
}

}  // namespace plumbline
