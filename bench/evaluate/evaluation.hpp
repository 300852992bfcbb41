// Predicts and measures one configuration: common code of `predict`, `run` and `matrix`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/evaluate/cell_process.hpp"
#include "bench/record/record.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Path of `calibrate`'s output, read when no hardware is named: profile.json in $XDG_CACHE_HOME/plumbline or
/// ~/.cache/plumbline.
std::string default_profile_path();
/// The same for `calibrate --backend cuda`: profile-cuda.json next to it, read for backend cuda only.
std::string default_cuda_profile_path();

/// Orders of magnitude of a server core, so that a prediction is possible at all; `calibrate` replaces them.
HardwareProfile rough_guess();

/// The configuration's hardware, else this machine's calibrated profile, else a rough guess of this machine.
/// `note` gets one line for people in the last case. Ranks of the emulated backend have a device each,
/// regardless of shared processors in the profile.
HardwareProfile hardware_of(const RunConfig& config, std::string& note);

enum class Asked { prediction, measurement };

/// A record with configuration, machine and model; status `invalid` with the reason when the sizes do not
/// divide, `unsupported` when this build cannot do it.
Record start_record(const std::string& id, const RunConfig& config, Asked asked);

/// True if this machine has what the configuration's backend needs to be measured. For backend cuda the
/// record gets the devices, the libraries and the label of ranks that share a GPU. Without a device it gets
/// the status `unsupported` with the reason.
bool has_device(const RunConfig& config, Record& record);

/// Checks of a run's files before its ranks start (bench/training/trainer/run_files.hpp): throws InputError
/// for errors that a rank would end with, returns remarks for people.
std::vector<std::string> check_files(const RunConfig& config);

/// The analytical prediction of a valid configuration.
Prediction predict_config(const RunConfig& config, const HardwareProfile& hardware);

/// Files that a run writes besides its measurement; none when empty.
struct RunFiles {
  std::string trace;      // predicted and measured timeline for a trace viewer
  std::string timelines;  // the same for reports: bench/rank/cell_timelines.hpp
  training::CheckpointOptions checkpoints{};
};

/// The body of one rank: trains and, on world rank 0, writes the measurement. It goes to the file that
/// kRecordOutVariable names, or to standard output as JSON when there is none. Returns the exit code.
int run_as_rank(const RunConfig& config, const RunFiles& files, int& argc, char**& argv);

}  // namespace plumbline
