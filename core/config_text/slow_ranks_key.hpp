// The key that slows ranks down.
#pragma once

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// slow_ranks: "3:1.1,5:1.2", ranks and how many times as long they compute.
ConfigKey slow_ranks_key();

}  // namespace plumbline
