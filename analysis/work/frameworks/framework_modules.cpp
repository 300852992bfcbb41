// Parts of a layer that Megatron-Core recomputes before their backward (recompute_modules):
// megatron/core/transformer, transformer_layer.py, moe/moe_layer.py, moe/experts.py.
#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

/// A feed-forward layer without experts. Only the sum of its parts is needed again, and the last product with
/// it: the checkpoint runs the whole module.
void dense_forward(const StageShape& s, FrameworkCalls& calls) {
  const std::int64_t hidden = s.stream.tokens * s.stream.hidden;
  calls.linear("fc1", GemmPass::forward, s.mlp.fc1, s.stream.hidden);
  const double activation = s.mlp.swiglu ? (s.software->kernels.compiled ? 6 : 10) : 4;
  calls.stream(s.mlp.swiglu ? "swiglu" : "gelu", s.stream.tokens * s.mlp.ffn, activation);
  calls.linear("fc2", GemmPass::forward, s.stream.hidden, s.mlp.ffn);
  calls.casts(hidden, true);
  calls.casts(s.stream.tokens * s.mlp.ffn, false);
  calls.edges("tensor collectives forward", 1, 1);
}

}  // namespace

void recompute_modules(const StageShape& s, FrameworkCalls& calls) {
  constexpr double kLaunchesOfNorm = 1, kLaunchesOfActivation = 3, kLaunchesOfProduct = 3;
  const RecomputeModules& modules = s.recomputation.modules;
  double launched = 0;
  if (modules.layernorm) {
    const std::int64_t norms = s.block.norms() * s.stream.rows * s.stream.hidden;
    calls.stream("norm", norms, 2 * s.software->kernels.norm_passes);
    calls.casts(norms, true);
    launched += kLaunchesOfNorm * static_cast<double>(s.block.norms());
  }
  if (modules.mla_up_proj && s.attention.latent()) {
    LatentCalls(s, calls).up_projections();
    launched += 2 * kLaunchesOfProduct;
  }
  if (s.mixture() && modules.moe) {
    MixtureCalls(s, calls).forward();
    calls.run_alongside();
    MixtureCalls(s, calls).launches(false);
  } else if (s.mixture() && modules.moe_act) {
    MixtureCalls(s, calls).activation();
    launched += kLaunchesOfActivation;
  }
  if (s.mixture() && modules.shared_experts && !modules.moe) MixtureCalls(s, calls).shared(GemmPass::forward);
  if (!s.mixture() && modules.mlp) {
    dense_forward(s, calls);
    launched += 2 * kLaunchesOfProduct + kLaunchesOfActivation;
  }
  calls.layer_launches(launched);
}

}  // namespace plumbline
