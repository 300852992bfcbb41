// Checkpoints and injected failures of `plumbline run`.
#include <fmt/format.h>

#include "bench/commands/number_range.hpp"
#include "bench/commands/run/run_options.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

/// Recovery costs measured in the run of a record.
RecoveryCosts costs_in(const std::string& file) {
  const Record record = parse_record(read_text_file(file, kLargestRecord), file);
  if (record.recovery) return record.recovery->costs;
  throw InputError(fmt::format(
      "--recovery-costs: {} has no key recovery; expected the record of a run with --inject-failures",
      printable(file, 400)));
}

constexpr int kMostKept = 1000;
constexpr int kLongestInterval = 1 << 20;

}  // namespace

void prepare(const RunCommand& command, const RunConfig& config, Checkpoints& checkpoints) {
  checkpoints.options = command.files.checkpoints;
  if (!command.failures.empty()) {
    checkpoints.failures = parse_failure_spec(command.failures);
    if (checkpoints.options.folder.empty())
      throw InputError(
          "--inject-failures: expected --checkpoint-dir, from which the run goes on after a failure");
    if (!command.recovery_costs.empty()) checkpoints.costs = costs_in(command.recovery_costs);
    if (command.elastic) {
      if (checkpoints.failures->replacement <= Seconds{}) {
        throw InputError(
            "--elastic: expected replacement=TIME in --inject-failures, for how long a lost rank is missing");
      }
      check_elastic(config);
    }
  }
  training::check_checkpoint_options(checkpoints.options, config);
  if (checkpoints.options.folder.empty()) return;
  training::make_checkpoint_folder(checkpoints.options.folder);
  checkpoints.lock.emplace(checkpoints.options.folder);
  for (const std::string& remark : training::prepare_checkpoints(checkpoints.options, config))
    say(fmt::format("note: {}\n", remark));
}

void add_recovery_options(CLI::App& command, RunCommand& options) {
  training::CheckpointOptions& checkpoints = options.files.checkpoints;
  command
      .add_option("--checkpoint-dir", checkpoints.folder,
                  "Folder for training checkpoints: weights, optimizer, step; one after the last step")
      ->type_name("DIR");
  command.add_option("--checkpoint-interval", checkpoints.interval, "Steps between checkpoints")
      ->type_name("K")
      ->check(number_from(1, kLongestInterval));
  command
      .add_option("--keep-checkpoints", checkpoints.keep,
                  "Checkpoints to keep; older ones are removed once a newer one is verified")
      ->type_name("N")
      ->check(number_from(1, kMostKept))
      ->capture_default_str();
  command.add_flag("--async-save", checkpoints.async,
                   "Write checkpoints asynchronously, alongside the next steps");
  command.add_flag("--resume", checkpoints.resume_newest,
                   "Resume from the newest complete checkpoint of --checkpoint-dir, with any parallel sizes");
  command
      .add_option(
          "--inject-failures", options.failures,
          "Inject random failures and restart from the newest checkpoint: mtbf=30s[,kinds=kill,hang,disk]"
          "[,seed=1][,most=N][,replacement=TIME][,hang_timeout=10s]")
      ->type_name("SPEC");
  command
      .add_flag("--elastic", options.elastic,
                "Continue with the other data-parallel replicas until a lost rank is replaced")
      ->needs("--inject-failures");
  command
      .add_option("--recovery-costs", options.recovery_costs,
                  "Record whose costs of steps, checkpoints and failures predict the goodput beforehand")
      ->type_name("RECORD")
      ->needs("--inject-failures");
  // Options that this command passes to its ranks.
  command.add_option("--resume-from", checkpoints.resume)->group("");
  command.add_flag("--checkpoints-prepared", checkpoints.prepared)->group("");
}

}  // namespace plumbline
