#include "analysis/work/frameworks/framework_python.hpp"

#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

/// Microseconds in one direction, in 16 bits and in FP8.
struct PythonTime {
  double wide[2];
  double fp8[2];

  double of(bool casts, bool backward) const { return (casts ? fp8 : wide)[backward ? 1 : 0]; }
};

// Modules of Megatron-Core 0.16 and Transformer Engine 2.12 with autograd's nodes and hooks, without kernels
// and launches, on the host of results/recorded/xeon-2-cores (layer_host.txt), less what is priced elsewhere:
// - 5.8 for each operator of software's counts (20 and 34, norms of heads 2 and 4, casts 8 and 8, routing 20,
//   experts 25). An operator's 8 contain 2.2 of a launch (tritonbench pull request 1002, April 2026:
//   precompiled kernel), the rest is PyTorch's and average Python.
// - Python of both grouped layers (framework_mixture_host.cpp).
constexpr PythonTime kAttention{{528, 144}, {671, 189}};
constexpr PythonTime kHeadNorms{{182, 103}, {227, 122}};
constexpr PythonTime kFeedForward{{311, 234}, {382, 301}};
constexpr PythonTime kRouting{{301, 159}, {307, 167}};
constexpr PythonTime kRoutingFlex{{210, 148}, {232, 149}};
constexpr PythonTime kExchange{{554, 255}, {622, 255}};
constexpr PythonTime kExchangeFlex{{317, 62}, {441, 90}};
constexpr double kMicrosecond = 1e-6;

}  // namespace

void layer_python(const StageShape& s, LayerPass pass, FrameworkCalls& calls) {
  if (!calls.megatron() || pass == LayerPass::backward_weight) return;
  const bool backward = pass == LayerPass::backward_input;
  const bool casts = s.numerics.framework_fp8 && !s.software->fp8.always;
  const auto add = [&](const PythonTime& time, double captured) {
    calls.python(kMicrosecond * time.of(casts, backward), captured);
  };
  // A Mamba mixer's products are modules like those of a feed-forward layer; the Python of its scan has not
  // been measured.
  if (s.has_mamba()) add(kFeedForward, s.graphs.layer);
  if (s.has_attention()) add(kAttention, s.graphs.layer);
  if (s.attention.qk_norm) add(kHeadNorms, s.graphs.layer);
  if (!s.mixer.feed_forward) return;
  if (!s.mixture()) return add(kFeedForward, s.graphs.layer);
  const bool flex = s.expert.dispatcher == TokenDispatcher::flex;
  add(flex ? kRoutingFlex : kRouting, s.graphs.router);
  add(flex ? kExchangeFlex : kExchange, s.graphs.experts ? 1 : 0);
}

}  // namespace plumbline
