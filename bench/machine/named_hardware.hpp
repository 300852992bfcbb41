// The accelerator that a configuration means by a short name.
#pragma once

#include <string>

namespace plumbline {

/// Puts the preset's name in place of a short one (h100), with a note on standard error, once each.
void name_hardware(std::string& hardware);

}  // namespace plumbline
