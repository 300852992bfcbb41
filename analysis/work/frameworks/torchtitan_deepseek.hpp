// DeepSeek's layers as torchtitan writes them (pytorch/torchtitan@8ee8b42f, torchtitan/models/deepseek_v3 and
// models/common): eager operators, since its recipes compile the loss alone (config_registry.py).
#pragma once

#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {

/// True for latent attention trained by torchtitan itself. Other models are written otherwise, and rows of
/// other FSDP software bear its name.
inline bool is_torchtitan_deepseek(const StageShape& s) {
  return s.software->kernels.llama_module && s.mlp.swiglu && s.attention.latent() && !s.adapters.frozen() &&
         !s.numerics.framework_fp8;
}

/// True if the calls below stand for the layer's experts.
inline bool is_torchtitan_mixture(const StageShape& s) {
  return is_torchtitan_deepseek(s) && s.mixture() && s.expert.dispatcher == TokenDispatcher::alltoall;
}

/// Queries and keys: their rotated parts turn, and are put together with the others.
void torchtitan_heads_forward(const StageShape& s, FrameworkCalls& calls);
void torchtitan_heads_backward(const StageShape& s, FrameworkCalls& calls);

/// Router, dispatch, experts, combine, shared experts. `again`: before the backward, up to what that reads.
void torchtitan_mixture_forward(const StageShape& s, bool again, FrameworkCalls& calls);
/// From the gradient of the layer's output to that of the norm's. Weight gradients are MixtureCalls'.
void torchtitan_mixture_backward(const StageShape& s, FrameworkCalls& calls);

}  // namespace plumbline
