// The key of the recomputed parts of a layer.
#pragma once

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// recompute_modules: "core_attn,layernorm", Megatron-Core's names.
ConfigKey recompute_modules_key();

}  // namespace plumbline
