#include "analysis/work/frameworks/framework_llama.hpp"

#include <algorithm>
#include <array>

namespace plumbline {
namespace {

/// Widths of the parts; 0: none.
std::array<std::int64_t, 3> widths_of(const StageShape& s, Projection of) {
  if (of == Projection::qkv) return {s.attention.q, s.attention.k, s.attention.k};
  return {s.mlp.ffn, s.mlp.fc1 - s.mlp.ffn, 0};
}

/// RMSNorm, operator by operator: to fp32 6, square 8, mean 4, product with its root 8, back 6, weight 4.
constexpr double kEagerNorm = 36;
/// By PyTorch's derivatives.yaml: weight 4 and its gradient 8, to fp32 6, product 8 and 16, mean 4, square
/// 28, sum of both 12, back 6.
constexpr double kEagerNormBackward = 92;

}  // namespace

double rotation_bytes(const StageShape& s) {
  return is_torchtitan_llama(s) ? kComplexRotation : s.software->kernels.compiled ? 4 : 12;
}

double norm_bytes(const StageShape& s, bool backward) {
  if (is_torchtitan_llama(s) && !s.software->kernels.compiled)
    return backward ? kEagerNormBackward : kEagerNorm;
  return backward ? 10 : 2 * s.software->kernels.norm_passes;
}

void project(const StageShape& s, Projection of, GemmPass pass, const PartShares& shares,
             FrameworkCalls& calls) {
  const char* label = of == Projection::qkv ? "qkv" : "fc1";
  const auto widths = widths_of(s, of);
  const double each[] = {shares.first, shares.second, shares.third};
  const bool separate = is_torchtitan_llama(s);
  std::int64_t whole = 0;
  double wanted = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    whole += widths[i];
    wanted += static_cast<double>(widths[i]) * each[i];
    if (separate && widths[i] > 0 && each[i] > 0)
      calls.linear(label, pass, widths[i], s.stream.hidden, each[i]);
  }
  if (!separate) calls.linear(label, pass, whole, s.stream.hidden, wanted / static_cast<double>(whole));
}

void add_input_gradients(const StageShape& s, Projection of, FrameworkCalls& calls) {
  if (!is_torchtitan_llama(s)) return;
  const auto widths = widths_of(s, of);
  const auto parts = static_cast<double>(
      std::count_if(widths.begin(), widths.end(), [](std::int64_t width) { return width > 0; }));
  if (parts < 2) return;
  const double compiled = s.sharding.tensor > 1 ? 2 * parts + 2 : 2 * (parts - 1);
  calls.stream("add gradients of inputs", s.stream.tokens * s.stream.hidden,
               s.software->kernels.compiled ? compiled : 6 * (parts - 1));
}

void repeat_heads(const StageShape& s, FrameworkCalls& calls) {
  const auto& a = s.attention;
  if (!is_torchtitan_llama(s) || a.q == a.k) return;
  calls.stream("repeat heads", s.stream.tokens * (a.q + a.k + a.attended() + a.values()), 2);
}

}  // namespace plumbline
