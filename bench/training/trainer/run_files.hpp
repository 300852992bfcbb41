// The files that a configuration names, looked at before ranks are started.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline::training {

/// Checks before ranks start. Throws InputError for errors that a started run would end with: checkpoints,
/// data or a loss mask that are missing or do not fit the model, outputs that could not be written, values
/// asked of a backend that computes none. Returns remarks for people, one line each: unused parts of the
/// files.
std::vector<std::string> check_files(const RunConfig& config);

}  // namespace plumbline::training
