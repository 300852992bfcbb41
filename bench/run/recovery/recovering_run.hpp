// A run with injected failures, restarted from its newest checkpoint until it has made its steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/evaluate/cell_process.hpp"
#include "bench/record/recovery_report.hpp"
#include "bench/run/recovery/failure_spec.hpp"
#include "bench/run/recovery/replica_sizes.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"

namespace plumbline {

/// Options of `plumbline run` that tell a rank about its checkpoints.
std::vector<std::string> checkpoint_arguments(const training::CheckpointOptions& options);

/// As measure_cell, with the record's key recovery. `options` are prepared. With sizes of an elastic run the
/// run continues with the replicas that there are ranks for; else everything waits for `spec.replacement`
/// after a failure. Measurements are those of the last start; if that had fewer replicas nothing is compared.
/// Goodput is predicted from `costs`, before the run, or from the run's own costs. `say` takes lines for
/// people. Throws InputError too if the ranks are on other hosts.
bool measure_with_failures(const RunConfig& config, const CellProgram& program, const CellRun& run,
                           training::CheckpointOptions options, const FailureSpec& spec,
                           const ReplicaSizes& sizes, const std::optional<RecoveryCosts>& costs,
                           const std::function<void(const std::string&)>& say, Record& record);

}  // namespace plumbline
