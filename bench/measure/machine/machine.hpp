// Machine of a result.
#pragma once

#include "bench/record/record.hpp"

namespace plumbline {

/// This machine: host, processor, library versions, and the environment variables that change results.
MachineReport this_machine();

}  // namespace plumbline
