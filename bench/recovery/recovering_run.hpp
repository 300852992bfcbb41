// A run that failures are injected into, started again from its newest checkpoint until it has made its steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/evaluate/cell_process.hpp"
#include "bench/record/recovery_report.hpp"
#include "bench/recovery/failure_spec.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"

namespace plumbline {

/// Options of `plumbline run` that tell a rank about its checkpoints.
std::vector<std::string> checkpoint_arguments(const training::CheckpointOptions& options);

/// As measure_cell, with the record's key recovery. `options` are prepared. Goodput is predicted from `costs`, before the
/// run, or from what the run itself paid. `say` takes lines for people. Throws InputError too where the ranks are on other
/// hosts.
bool measure_with_failures(const RunConfig& config, const CellProgram& program, const CellRun& run,
                           training::CheckpointOptions options, const FailureSpec& spec,
                           const std::optional<RecoveryCosts>& costs,
                           const std::function<void(const std::string&)>& say, Record& record);

}  // namespace plumbline
