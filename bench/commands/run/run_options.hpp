// Options of `plumbline run`, and its parts.
#pragma once

#include <optional>
#include <string>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/processes/hosts/chosen_hosts.hpp"
#include "bench/run/recovery/recovering_run.hpp"
#include "bench/show/logs/training_log.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"

namespace plumbline {

constexpr std::size_t kLargestRecord = std::size_t{64} << 20;

struct RunCommand {
  ConfigOptions config;
  RunFiles files;
  LauncherOptions launcher;
  std::string failures;  // --inject-failures
  bool elastic = false;
  std::string recovery_costs;  // --recovery-costs
  bool json = false;
  bool timeline = false;
  TrainingLogs logs{};
  std::string svg;  // output file for a picture of both timelines
};

/// Checkpoint options of a run whose ranks are about to start; the folder belongs to it for as long as it
/// lives.
struct Checkpoints {
  training::CheckpointOptions options;
  std::optional<training::CheckpointLock> lock;
  std::optional<FailureSpec> failures;
  ReplicaSizes sizes{};
  std::optional<RecoveryCosts> costs;

  ~Checkpoints() {
    if (lock) training::remove_unfinished(options.folder);  // of ranks that were stopped
  }
};

void add_recovery_options(CLI::App& command, RunCommand& options);
/// Checks the options, and takes the checkpoint folder. Throws InputError naming the option.
void prepare(const RunCommand& command, const RunConfig& config, Checkpoints& checkpoints);

/// Run of a task of reinforcement learning: starts its ranks, or is one.
int launch_reinforcement(const RunCommand& command, bool quiet);
int reinforce_as_rank(const RunCommand& command, const RunConfig& config);

}  // namespace plumbline
