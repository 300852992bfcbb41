// Predicts and measures one configuration: common code of `predict`, `run` and `matrix`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/evaluate/cell_process.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/record/record.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

enum class Asked { prediction, measurement };

/// A record with configuration, machine and model; status `invalid` with the reason when the sizes do not
/// divide, `unsupported` when this build cannot do it.
Record start_record(const std::string& id, const RunConfig& config, Asked asked);

/// True if this machine has what the configuration's backend needs to be measured. For backend cuda the
/// record gets the devices, the libraries and the label of ranks that share a GPU. Without a device it gets
/// the status `unsupported` with the reason.
/// `ranks_here`: ranks of this host.
bool has_device(const RunConfig& config, int ranks_here, Record& record);

/// Checks of a run's files before its ranks start (bench/training/trainer/run_files.hpp): throws InputError
/// for errors that a rank would end with, returns remarks for people.
std::vector<std::string> check_files(const RunConfig& config);

/// The analytical prediction of a valid configuration.
Prediction predict_config(const RunConfig& config, const HardwareProfile& hardware);

/// Files that a run writes besides its measurement; none when empty.
struct RunFiles {
  std::string trace;      // predicted and measured timeline for a trace viewer
  std::string timelines;  // the same for reports: bench/run/cell_timelines.hpp
  training::CheckpointOptions checkpoints{};
};

/// The body of one rank: trains and, on world rank 0, writes the measurement. It goes to the file that
/// kRecordOutVariable names, or to standard output as JSON when there is none. Returns the exit code.
int run_as_rank(const RunConfig& config, const RunFiles& files, int& argc, char**& argv);

}  // namespace plumbline
