// Accelerators by name, short name or file.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"

namespace plumbline {

/// Puts the preset's name in place of a short one (h100), with a note on standard error, once each.
void name_hardware(std::string& hardware);

/// A preset or an accelerator's file. Throws InputError, also for a calibrated profile, which has neither
/// tables of operators nor a network.
HardwareProfile accelerator_named(const std::string& name);

}  // namespace plumbline
