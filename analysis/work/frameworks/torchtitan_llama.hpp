// Which stages are written as torchtitan writes Llama.
#pragma once

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// True for dense Llama trained by torchtitan itself. It has no LoRA; other models are written otherwise, and
/// rows of other FSDP software bear its name.
inline bool is_torchtitan_llama(const StageShape& s) {
  return s.software->kernels.llama_module && s.mlp.swiglu && s.attention.rotary && !s.attention.qk_norm &&
         !s.attention.latent() && !s.mixture() && !s.adapters.frozen();
}

}  // namespace plumbline
