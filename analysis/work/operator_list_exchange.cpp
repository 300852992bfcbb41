// Rows among the ranks that the experts of a layer are spread over (bench/training/expert_parallel.md).
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {

void CallList::among_experts(CallKind kind, const char* label, std::int64_t elements, DType type) {
  collective(kind, label, Group::expert, s_.expert.group, elements, type);
}

/// `hands_over`: rows, not numbers.
void CallList::exchange(const char* label, std::int64_t elements, DType type, bool hands_over,
                        const Meanwhile& meanwhile) {
  const std::size_t before = calls.size();
  among_experts(CallKind::all_to_all, label, elements, type);
  const bool travels = calls.size() > before;
  if (travels) last<CollectiveCall>().hands_over = hands_over;
  if (!meanwhile) return;
  const int ticket = travels ? start_collective(label) : 0;
  meanwhile();
  if (travels) wait(ticket);
}

/// Dispatches every token's row to its experts, or gathers all tokens of the group.
void CallList::tokens_to_experts(const char* exchange, const char* gather, const Meanwhile& meanwhile) {
  const double e = 2 * static_cast<double>(s_.numerics.e());
  if (!s_.gathers_tokens()) {
    memory("embedding_forward", s_.sent_rows() * s_.stream.hidden, e);
    return rows_to_experts(exchange, s_.stream.hidden, s_.numerics.type, meanwhile);
  }
  among_experts(CallKind::all_gather, gather, s_.expert.group * s_.expert.sent * s_.stream.hidden,
                s_.numerics.type);
  memory("embedding_forward", s_.expert.rows * s_.stream.hidden, e);
  allocations(1);
}

/// Exchange of row counts and row weights.
void CallList::open_dispatch() {
  if (!s_.exchanges_rows()) return;
  if (!s_.gathers_tokens()) {
    among_experts(CallKind::all_to_all, "expert counts all-to-all", s_.expert.group * s_.expert.local,
                  DType::int32);
    if (s_.sent_rows() > s_.moe.choice_rows) memory("copy", s_.sent_rows(), 8, DType::fp32);
    return rows_to_experts("expert weights all-to-all", 1, DType::fp32);
  }
  const std::int64_t choices = s_.expert.group * s_.sent_choices();
  among_experts(CallKind::all_gather, "expert counts all-gather", s_.expert.group * s_.moe.experts,
                DType::int32);
  among_experts(CallKind::all_gather, "expert places all-gather", choices, DType::int32);
  among_experts(CallKind::all_gather, "expert weights all-gather", choices, DType::fp32);
  memory("embedding_forward", s_.expert.rows, 8, DType::fp32);
  allocations(5);
}

/// The weights' gradients to where their tokens are.
void CallList::weights_from_experts() {
  if (!s_.gathers_tokens()) {
    rows_from_experts("expert all-to-all of weights' gradients", 1, DType::fp32);
  } else {
    const std::int64_t choices = s_.expert.group * s_.sent_choices();
    memory("fill", choices, 4, DType::fp32);
    memory("embedding_backward", s_.expert.rows, 12, DType::fp32);
    among_experts(CallKind::reduce_scatter, "expert reduce-scatter of weights' gradients", choices,
                  DType::fp32);
    allocations(2);
  }
  if (!s_.folds_experts())
    return tensor_all_reduce("expert weights all-reduce", s_.moe.choice_rows, DType::fp32);
  memory("combine_rows", s_.sent_choices(), 8, DType::fp32);
  collective(CallKind::all_gather, "expert weights all-gather", Group::tensor, s_.sharding.tensor,
             s_.moe.choices, DType::fp32);
  allocations(s_.sharding.tensor > 1 ? 2 : 1);
}

void CallList::rows_to_experts(const char* label, std::int64_t width, DType type,
                               const Meanwhile& meanwhile) {
  if (!s_.exchanges_rows()) return;
  exchange(label, s_.sent_rows() * width, type, width == s_.stream.hidden, meanwhile);
  memory("embedding_forward", s_.expert.rows * width, 2 * static_cast<double>(size_of(type)), type);
  allocations(2);
}

void CallList::rows_from_experts(const char* label, std::int64_t width, DType type,
                                 const Meanwhile& meanwhile) {
  if (!s_.exchanges_rows()) return;
  memory("embedding_forward", s_.expert.rows * width, 2 * static_cast<double>(size_of(type)), type);
  exchange(label, s_.expert.rows * width, type, width == s_.stream.hidden, meanwhile);
  allocations(2);
}

/// ZeRO-2: scatters the gradient of experts that are spread over ranks; that of the layer's other unit
/// follows, so this one is waited for.
void CallList::expert_scatter() {
  if (!s_.exchanges_rows() || s_.sharding.zero < 2 || (s_.expert.copies == 1 && !s_.has_instances())) return;
  const std::int64_t unit = padded_expert_unit(s_);
  const auto g = static_cast<double>(s_.numerics.g());
  memory("fill", unit, g, s_.numerics.grad_type);
  const auto [scatter, between] = gradient_scatter(s_, Group::expert_data, s_.expert.copies, unit);
  calls.push_back(scatter);
  if (between.elements() > 0) calls.push_back(between);
  memory("add", unit / s_.expert.copies, 3 * g, s_.numerics.grad_type);
}

}  // namespace plumbline
