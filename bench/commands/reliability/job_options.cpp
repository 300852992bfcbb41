#include "bench/commands/reliability/job_options.hpp"

#include <fmt/format.h>

#include "bench/commands/number_range.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

void add_fleet_option(CLI::App& command, JobOptions& options) {
  command
      .add_option("--fleet", options.fleet, "Failure rates: llama3-405b, rsc-1, rsc-2, ft-hsdp, or a file")
      ->capture_default_str()
      ->type_name("FLEET.yaml");
}

void add_recovery_options(CLI::App& command, JobOptions& options) {
  command
      .add_option(
          "--detect", options.detect,
          "Failure detection time, in seconds; with --restart's default OLMo's median recovery of 3 min 42 s")
      ->check(number_from(0.0, 1e7))
      ->capture_default_str();
  command
      .add_option("--restart", options.restart,
                  "Restart time from detection to reading the checkpoint, in seconds")
      ->check(number_from(0.0, 1e7))
      ->capture_default_str();
  command.add_option("--hot-swap", options.hot_swap, "Restart time with a hot spare node, in seconds")
      ->check(number_from(0.0, 1e7));
}

void add_checkpoint_options(CLI::App& command, JobOptions& options) {
  command.add_option(
      "--checkpoint-size", options.size,
      "Checkpoint size, such as 5.2TiB (default: 14 bytes per parameter, weights and Adam's states)");
  command
      .add_option("--checkpoint-write", options.write,
                  "Checkpoint write bandwidth of the job, in GB/s; 50 to 200 are common")
      ->check(number_from(1e-3, 1e9))
      ->capture_default_str();
  command.add_option("--checkpoint-read", options.read, "Checkpoint read bandwidth of the job, in GB/s")
      ->check(number_from(1e-3, 1e9))
      ->capture_default_str();
  command
      .add_option("--checkpoint-stall", options.stall,
                  "Stall per asynchronous save, in seconds (default: blocking saves)")
      ->check(number_from(0.0, 1e6));
  command
      .add_option("--checkpoint-interval", options.interval,
                  "Checkpoint interval, in seconds of work (default: the best)")
      ->check(number_from(0.001, 1e8));
}

void check_checkpoint(const JobOptions& options, const RunConfig& config, const char* command) {
  if (!options.size.empty() || !config.finetune.lora()) return;
  throw InputError(
      fmt::format("{}: --checkpoint-size: missing; expected what a checkpoint of the adapters takes: with "
                  "frozen lora the "
                  "model itself is not written",
                  command));
}

GoodputRequest job_of(const JobOptions& options) {
  GoodputRequest request;
  request.fleet = load_fleet(options.fleet);
  if (!options.size.empty()) request.checkpoint.size = parse_bytes(options.size, "--checkpoint-size");
  request.checkpoint.write = {1e9 * options.write};
  request.checkpoint.read = {1e9 * options.read};
  if (options.stall >= 0) request.checkpoint.stall = Seconds{options.stall};
  if (options.interval > 0) request.interval = Seconds{options.interval};
  request.recovery.detect = {options.detect};
  request.recovery.restart = {options.restart};
  if (options.hot_swap >= 0) request.recovery.hot_swap = Seconds{options.hot_swap};
  return request;
}

}  // namespace plumbline
