// Checks of checkpoints before a run's ranks begin: their folder, whether they fit, and which one the run
// resumes from.
#pragma once

#include <string>
#include <vector>

#include "bench/training/checkpoints/checkpoint_options.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::training {

/// Throws InputError for options that contradict each other or the configuration.
void check_checkpoint_options(const CheckpointOptions& options, const RunConfig& config);

/// Makes the folder if it is missing. Throws OutputError.
void make_checkpoint_folder(const std::string& folder);

/// Makes the folder, removes unfinished files of an earlier run, and sets `resume` to the newest complete
/// checkpoint of less than `below` steps when `resume_newest` asks for it. Returns remarks for people:
/// skipped damaged ones, or that there is none. Throws OutputError: a folder that cannot be written, no room
/// for `keep` + 1 checkpoints; InputError: a checkpoint of another run, or one that has all steps of this
/// one.
std::vector<std::string> prepare_checkpoints(CheckpointOptions& options, const RunConfig& config);

/// Sets `resume` as above to one of the run's own, newer or older; nothing is said of other runs.
std::vector<std::string> choose_checkpoint(CheckpointOptions& options, std::int64_t below);

}  // namespace plumbline::training
