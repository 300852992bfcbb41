#include "analysis/work/operator_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/step/stage_shape.hpp"

namespace plumbline {

std::string label_of(const OperatorCall& call) {
  const auto* gemm = call.as<GemmCall>();
  if (gemm == nullptr) return call.label;
  return fmt::format("{} {}{}", call.label, name_of(gemm->pass),
                     gemm->fp4   ? ", fp4"
                     : gemm->fp8 ? ", fp8"
                                 : "");
}

double pairs_of(const AttentionCall& call) {
  // Pairs of the first `queries` of a sequence: all earlier keys except those that are not given.
  const auto up_to = [&](std::int64_t queries) {
    if (queries <= 0) return 0.0;
    const auto all = [](std::int64_t count, std::int64_t window, std::int64_t prefix) {
      return count > 0 ? static_cast<double>(count) * keys_per_query(count, window, prefix) : 0;
    };
    const double seen = all(queries, call.window, call.prefix);
    if (call.keys == 0 || queries <= call.keys) return seen;
    const std::int64_t later = queries - call.keys;  // keys that those queries would have besides
    return seen - all(later, call.window, 0);
  };
  return up_to(call.past + call.queries) - up_to(call.past);
}

double read_elements(const AttentionCall& call) {
  std::int64_t keys = call.past + call.queries;
  if (call.window > 0) keys = std::min(keys, call.window + call.queries - 1);
  if (call.latent > 0) {
    const std::int64_t sequences = call.heads / std::max<std::int64_t>(1, call.group);
    return static_cast<double>(sequences * keys * call.latent);
  }
  const std::int64_t key_heads = call.heads / std::max<std::int64_t>(1, call.group);
  return 2.0 * static_cast<double>(key_heads) * static_cast<double>(keys * call.head_dim);
}

Flops flops_of(const OperatorCall& call) {
  const auto count = static_cast<double>(call.count);
  if (const auto* gemm = call.as<GemmCall>()) {
    const auto batch = static_cast<double>(gemm->batch);
    const auto tokens = static_cast<double>(gemm->tokens);
    return {call.share * count * batch * 2 * tokens * static_cast<double>(gemm->out) *
            static_cast<double>(gemm->in)};
  }
  if (const auto* attention = call.as<AttentionCall>()) {
    // Scores and their product with the values: each 2·d FLOPs per head and visible (query, key) pair.
    // Visible are half of all pairs, a prefix's besides, or those of a window; kernels skip pairs outside it
    // like those above the diagonal. The backward recomputes the scores and has four more products of that
    // size: 2.5 times the forward, twice where the probabilities are kept.
    const double forward = 4 * pairs_of(*attention) * static_cast<double>(attention->head_dim);
    return {call.share * count * static_cast<double>(attention->heads) * forward *
            (!attention->backward ? 1
             : attention->unfused ? 2
                                  : 2.5)};
  }
  return {0};
}

}  // namespace plumbline
