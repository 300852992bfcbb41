// The hardware profile that a configuration is predicted with.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
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

}  // namespace plumbline
