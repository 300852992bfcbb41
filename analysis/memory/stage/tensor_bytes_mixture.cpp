// Bytes of feed-forward layers, of experts' rows and of the shared expert.
#include "analysis/memory/stage/quantized_bytes.hpp"
#include "analysis/memory/stage/tensor_bytes.hpp"

namespace plumbline {
namespace {

/// Quantized expert rows, with scales of each.
std::int64_t quantized_rows(const StageShape& s, std::int64_t width) {
  const std::int64_t scales = s.numerics.fp8_tensorwise ? kScaleBytes * s.local_experts() : 0;
  return s.numerics.fp8 && s.mixture() ? s.mlp_rows() * width + scales : 0;
}

/// Quantized operand of a shared expert.
std::int64_t quantized_shared(const StageShape& s, std::int64_t width) {
  return s.moe.shared > 0 ? quantized_bytes(s, s.stream.tokens * width) : 0;
}

/// Choices of all tokens of an expert group, if tokens are gathered.
std::int64_t gathered_choices(const StageShape& s) {
  return s.gathers_tokens() ? s.expert.group * s.sent_choices() : 0;
}

/// Rows that go to several ranks each.
bool repeats_rows(const StageShape& s) {
  return s.sent_rows() > s.moe.choice_rows && !s.gathers_tokens();
}

/// Places of the returned rows of every choice, where it has several.
std::int64_t returns(const StageShape& s) {
  return repeats_rows(s) ? s.expert.tensor * s.sent_choices() : 0;
}

/// Product of a feed-forward layer, or of all experts together.
ProductBytes feed_forward_product(const StageShape& s, std::int64_t out, std::int64_t in) {
  if (!s.numerics.fp8 || !s.mixture()) return product_bytes(s, out, in);
  return {s.sharding.zero >= 3 ? s.local_experts() * out * in : 0, s.mlp_rows() * (out + in)};
}

}  // namespace

FeedForwardBytes::FeedForwardBytes(const StageShape& s)
    : fc1(s.mlp_rows() * s.mlp.fc1 * s.numerics.e()),
      activation(s.mlp_rows() * s.mlp.ffn * s.numerics.e()),
      activation_output(!s.numerics.fp8 ? activation
                        : s.mixture()   ? quantized_rows(s, s.mlp.ffn)
                                        : quantized_bytes(s, s.stream.tokens * s.mlp.ffn)),
      fc1_gradient(s.numerics.fp8 ? quantized_rows(s, s.mlp.fc1) : fc1),
      wide_activation_output(s.numerics.fp8 ? activation : 0),
      quantized_fc1(quantized_bytes(s, s.stream.tokens * s.mlp.fc1)),
      fc1_product(feed_forward_product(s, s.mlp.fc1, s.stream.hidden)),
      fc2_product(feed_forward_product(s, s.stream.hidden, s.mlp.ffn)) {}

MixtureBytes::MixtureBytes(const StageShape& s)
    : routing(s.stream.tokens * s.moe.experts * 4 +
              (s.moe.choices + s.sent_choices() + 2 * s.moe.choice_rows) * 4),
      load(s.moe.global_balance || s.moe.context_balance ? s.moe.experts * 4 : 0),
      rows_tokens(s.exchanges_rows() ? 0 : s.moe.choice_rows * 4),
      expert_rows(s.sent_rows() * s.stream.hidden * s.numerics.e()),
      expert_weights(2 * s.mlp_rows() * 4),
      router_gradient(s.stream.tokens * s.moe.experts * s.numerics.e()),
      own_rows(s.exchanges_rows() ? s.expert.rows * s.stream.hidden * s.numerics.e() : 0),
      orders(s.exchanges_rows() ? (2 * s.expert.rows + gathered_choices(s) + returns(s)) * 4 : 0),
      row_weights(s.exchanges_rows() ? s.expert.rows * 4 : 0),
      repeated_weights(repeats_rows(s) ? s.sent_rows() * 4 : 0),
      sent_weights(s.exchanges_rows() ? (s.gathers_tokens() ? s.moe.choice_rows : s.sent_rows()) * 4 : 0),
      own_weights(s.folds_experts() ? s.sent_choices() * 4 : 0),
      choice_weights(s.exchanges_rows() ? (s.folds_experts() ? s.moe.choices : s.moe.choice_rows) * 4 : 0),
      weights_by_rank(s.gathers_tokens() ? gathered_choices(s) * 4 : row_weights),
      group_tokens(s.gathers_tokens() ? s.expert.group * s.expert.sent * s.stream.hidden * s.numerics.e()
                                      : 0),
      group_sums(group_tokens / s.numerics.e() *
                 size_of(s.sharding.tensor > 1 && !s.sums_experts_apart() ? s.numerics.sum_type()
                                                                          : s.numerics.type)),
      made_rows(s.exchanges_rows() ? own_rows : expert_rows),
      read_rows(s.numerics.fp8 ? quantized_rows(s, s.stream.hidden) : made_rows),
      kept_rows(s.exchanges_rows() && !s.adapters.own ? read_rows : 0) {}

SharedExpertBytes::SharedExpertBytes(const StageShape& s)
    : weights(s.moe.shared > 0 && s.moe.shared_gated ? s.stream.tokens * 4 : 0),
      products(2 * weights),
      gate(s.moe.shared > 0 && s.moe.shared_gated ? s.stream.tokens * s.numerics.e() : 0),
      fc1(s.stream.tokens * 2 * s.moe.shared * s.numerics.e()),
      activation(s.stream.tokens * s.moe.shared * s.numerics.e()),
      operand(quantized_shared(s, s.stream.hidden)),
      activation_output(s.numerics.fp8 ? quantized_shared(s, s.moe.shared) : activation),
      fc1_gradient(s.numerics.fp8 ? quantized_shared(s, 2 * s.moe.shared) : fc1),
      fc1_product(s.moe.shared > 0 ? product_bytes(s, 2 * s.moe.shared, s.stream.hidden) : ProductBytes{}),
      fc2_product(s.moe.shared > 0 ? product_bytes(s, s.stream.hidden, s.moe.shared) : ProductBytes{}) {}

}  // namespace plumbline
