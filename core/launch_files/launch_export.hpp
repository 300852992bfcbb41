// Launch commands by the name of their framework.
#pragma once

#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// GPUs of a host where nothing says otherwise.
constexpr int kUsualHostGpus = 8;

/// The launch command of `framework` on hosts of so many GPUs. Throws InputError for an unknown one, and for
/// what it cannot say.
std::string export_launch(const RunConfig& config, const std::string& framework,
                          int gpus_per_host = kUsualHostGpus);

}  // namespace plumbline
