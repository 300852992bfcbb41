// The key that says which parts of a layer are recomputed.
#pragma once

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// recompute_modules: "core_attn,layernorm", Megatron-Core's names.
ConfigKey recompute_modules_key();

}  // namespace plumbline
