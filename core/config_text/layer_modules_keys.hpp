// Keys that name parts of a layer.
#pragma once

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// recompute_modules: "core_attn,layernorm", Megatron-Core's names.
ConfigKey recompute_modules_key();

/// offload_modules: "core_attn,attn_proj", or "none".
ConfigKey offload_modules_key();

}  // namespace plumbline
