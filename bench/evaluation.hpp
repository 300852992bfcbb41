// Predicts and measures one configuration: what `predict`, `run` and `matrix` share.
#pragma once

#include <functional>
#include <string>

#include "analysis/hardware.hpp"
#include "analysis/predict.hpp"
#include "bench/cell_process.hpp"
#include "bench/record.hpp"
#include "core/run_config.hpp"

namespace plumbline {

/// Where `calibrate` writes and everything else looks when no hardware is named: profile.json in
/// $XDG_CACHE_HOME/plumbline or ~/.cache/plumbline.
std::string default_profile_path();

/// The configuration's hardware, else this machine's calibrated profile, else a rough guess of this machine.
/// `note` gets one line for people in the last case.
HardwareProfile hardware_of(const RunConfig& config, std::string& note);

/// A record with configuration, machine and model, and the prediction where the model covers the
/// configuration; status `invalid` with the reason when the sizes do not divide.
Record start_record(const std::string& id, const RunConfig& config);

/// The analytical prediction of a valid configuration.
Prediction predict_config(const RunConfig& config, const HardwareProfile& hardware);

/// The body of one rank: trains and, on world rank 0, writes the measurement to the file that
/// kRecordOutVariable names, or to standard output as JSON when there is none. Returns the exit code.
/// `trace_file`, unless empty, gets the predicted and the measured timeline for a trace viewer.
int run_as_rank(const RunConfig& config, const std::string& trace_file, int& argc, char**& argv);

}  // namespace plumbline
