// Stages that are written as torchtitan writes Llama, and its rotary embedding.
#pragma once

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

/// True for dense Llama trained by torchtitan itself. It has no LoRA; other models are written otherwise, and
/// rows of other FSDP software bear its name.
inline bool is_torchtitan_llama(const StageShape& s) {
  return s.software->kernels.llama_module && s.mlp.swiglu && s.attention.rotary && !s.attention.qk_norm &&
         !s.attention.latent() && !s.mixture() && !s.adapters.frozen();
}

/// Bytes per element of its rotary embedding, either way: complex numbers to fp32, the product, back to 16
/// bits (apply_rotary_emb). Compiled too, since Inductor has no code for complex numbers (pytorch/torchtitan
/// issue 15).
inline constexpr double kComplexRotation = 6 + 8 + 6;

}  // namespace plumbline
