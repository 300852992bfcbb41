// Options of a long job's failures, recoveries and checkpoints.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "analysis/reliability/goodput.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct JobOptions {
  std::string fleet = "llama3-405b";
  double detect = 60;
  double restart = 162;
  double hot_swap = -1;
  std::string size;  // of a checkpoint; empty: all states
  double write = 100;
  double read = 100;
  double stall = -1;
  double interval = 0;
};

void add_fleet_option(CLI::App& command, JobOptions& options);
/// `--detect`, `--restart` and `--hot-swap`.
void add_recovery_options(CLI::App& command, JobOptions& options);
/// `--checkpoint-size` and the others of its name.
void add_checkpoint_options(CLI::App& command, JobOptions& options);

/// Fleet, checkpoint, recovery and interval; the checkpoint's size is 0 unless an option gives it.
GoodputRequest job_of(const JobOptions& options);
/// Throws InputError for adapters without `--checkpoint-size`. `command`: name in the message.
void check_checkpoint(const JobOptions& options, const RunConfig& config, const char* command);

}  // namespace plumbline
