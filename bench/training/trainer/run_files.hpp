// The files that a configuration names, looked at before ranks are started.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline::training {

/// Throws InputError for what a run would end with after it has started: checkpoints, data or a loss mask that
/// are missing or do not fit the model, outputs that could not be written, values asked of a backend that
/// computes none. Returns remarks for people, one line each: what of the files is not used.
std::vector<std::string> check_files(const RunConfig& config);

}  // namespace plumbline::training
