// The feed-forward part of a layer with a mixture of experts, call by call (bench/training/mixtures.md).
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

constexpr const char* kGatherForward = "sequence all-gather forward";
constexpr const char* kGatherBackward = "sequence all-gather backward";

/// A number of 4 bytes for every choice, for every row, and the router's logits.
struct RouterBytes {
  explicit RouterBytes(const StageShape& s)
      : choices(4 * static_cast<double>(s.choices)),
        rows(4 * static_cast<double>(s.sent_rows)),
        logits(4 * static_cast<double>(s.tokens * s.experts)) {}
  double choices;
  double rows;
  double logits;
};

}  // namespace

void CallList::grouped(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
  const std::int64_t all = s_.exchanges_rows() ? s_.expert.local : s_.experts;
  const std::int64_t rows = s_.mlp_rows() / all;
  const std::int64_t left = s_.mlp_rows() % all;
  const auto add = [&](std::int64_t tokens, std::int64_t experts) {
    if (tokens == 0 || experts == 0) return;
    gemm(label, pass, out, in);
    calls.back().tokens = tokens;
    calls.back().count = experts;
  };
  add(rows + 1, left);
  add(rows, all - left);
}

void CallList::rows_to_experts(const char* label, std::int64_t width, DType type) {
  if (!s_.exchanges_rows()) return;
  collective(CallKind::all_to_all, label, Group::expert, s_.expert.ranks, s_.sent_rows * width, type);
  memory("embedding_forward", s_.expert.rows * width, 2 * static_cast<double>(size_of(type)), type);
  allocations(2);
}

void CallList::rows_from_experts(const char* label, std::int64_t width, DType type) {
  if (!s_.exchanges_rows()) return;
  memory("embedding_forward", s_.expert.rows * width, 2 * static_cast<double>(size_of(type)), type);
  collective(CallKind::all_to_all, label, Group::expert, s_.expert.ranks, s_.expert.rows * width, type);
  allocations(2);
}

/// ZeRO-2: of the gradient of experts that are spread over ranks; that of the layer's other unit follows it, so that it is
/// waited for.
void CallList::expert_scatter() {
  if (!s_.exchanges_rows() || s_.zero < 2 || s_.expert.copies == 1) return;
  const std::int64_t unit = padded_expert_unit(s_);
  const auto g = static_cast<double>(s_.g());
  memory("fill", unit, g, s_.grad_type);
  collective(CallKind::reduce_scatter, "gradient reduce-scatter", Group::expert_data, s_.expert.copies, unit,
             s_.grad_type);
  memory("add", unit / s_.expert.copies, 3 * g, s_.grad_type);
}

void CallList::router_product(GemmPass pass) {
  gemm("router", pass, s_.experts, s_.hidden);
}

void CallList::mixture_forward() {
  const auto e = static_cast<double>(s_.e());
  const RouterBytes bytes(s_);
  const std::int64_t logits = s_.tokens * s_.experts;
  gathered_operand(kGatherForward);
  router_product(GemmPass::forward);
  memory("route", logits, (bytes.logits + bytes.choices) / static_cast<double>(logits), DType::fp32);
  memory("arrange", logits, (bytes.logits + 2 * (bytes.choices + bytes.rows)) / static_cast<double>(logits),
         DType::fp32);
  if (s_.exchanges_rows()) {
    collective(CallKind::all_to_all, "expert counts all-to-all", Group::expert, s_.expert.ranks, s_.experts,
               DType::int32);
    rows_to_experts("expert weights all-to-all", 1, DType::fp32);
  }
  memory("embedding_forward", s_.sent_rows * s_.hidden, 2 * e);
  rows_to_experts("expert all-to-all forward", s_.hidden, s_.type);
  grouped("fc1", GemmPass::forward, s_.fc1, s_.hidden);
  if (s_.shared > 0 && s_.shared_gated) {
    gemm("shared gate", GemmPass::forward, 1, s_.hidden);
    memory("sigmoid_forward", s_.tokens, 8, DType::fp32);
  }
  if (s_.shared > 0) gemm("shared fc1", GemmPass::forward, 2 * s_.shared, s_.hidden);
  memory("swiglu_forward", s_.mlp_rows() * s_.fc1, 1.5 * e);
  memory("scale_rows", s_.mlp_rows() * s_.ffn, 2 * e);
  memory("swiglu_forward", s_.tokens * 2 * s_.shared, 1.5 * e);
  if (s_.shared_gated) memory("scale_rows", s_.tokens * s_.shared, 2 * e);
  allocations(6);
}

void CallList::mixture_output() {
  grouped("fc2", GemmPass::forward, s_.hidden, s_.ffn);
  rows_from_experts("expert all-to-all of results", s_.hidden, s_.type);
  add_up_choices();
  if (s_.shared > 0) gemm("shared fc2", GemmPass::forward, s_.hidden, s_.shared);
  sum_over_tensor_ranks("tensor all-reduce forward", "sequence reduce-scatter forward");
  allocations(1);
}

void CallList::add_up_choices() {
  const std::int64_t rows = s_.sent_rows * s_.hidden;
  const DType sums = s_.tensor > 1 ? s_.sum_type() : s_.type;
  const double written = static_cast<double>(s_.tokens * s_.hidden * size_of(sums));
  memory("combine_rows", rows, static_cast<double>(s_.e()) + written / static_cast<double>(rows));
}

void CallList::shared_gradients(bool weight) {
  const auto e = static_cast<double>(s_.e());
  const std::int64_t activation = s_.tokens * s_.shared;
  if (s_.shared_gated) {
    memory("swiglu_forward", 2 * activation, 1.5 * e);
    memory("row_products", activation, 2 * e);
    memory("scale_rows", activation, 2 * e);
    tensor_all_reduce("shared weights all-reduce", s_.tokens, DType::fp32);
    memory("sigmoid_backward", s_.tokens, 12, DType::fp32);
    memory("copy", s_.tokens, 4 + e);
    if (!weight) memory("scale_rows", activation, 2 * e);
    allocations(2);
  }
  memory("swiglu_backward", 2 * activation, 2.5 * e);
  allocations(2);
}

void CallList::mixture_backward(bool input, bool weight) {
  const auto e = static_cast<double>(s_.e());
  const std::int64_t logits = s_.tokens * s_.experts;
  const std::int64_t rows = s_.sent_rows * s_.hidden;
  const std::int64_t activation = s_.mlp_rows() * s_.ffn;
  const bool spread = s_.exchanges_rows();
  const auto send = [&] { memory("embedding_forward", rows, 2 * e); };
  gathered_operand(kGatherBackward);
  if (input || !spread) send();
  if (input) rows_to_experts("expert all-to-all backward", s_.hidden, s_.type);
  if (input) grouped("fc2", GemmPass::input_gradient, s_.hidden, s_.ffn);
  if (weight) grouped("fc2", GemmPass::weight_gradient, s_.hidden, s_.ffn);
  if (s_.shared > 0 && input) gemm("shared fc2", GemmPass::input_gradient, s_.hidden, s_.shared);
  if (s_.shared > 0 && weight) gemm("shared fc2", GemmPass::weight_gradient, s_.hidden, s_.shared);
  if (input) {
    memory("swiglu_forward", s_.mlp_rows() * s_.fc1, 1.5 * e);
    memory("row_products", activation, 2 * e);
    memory("scale_rows", activation, 2 * e);
    if (!weight) memory("scale_rows", activation, 2 * e);  // the activation once more
    memory("swiglu_backward", s_.mlp_rows() * s_.fc1, 2.5 * e);
    if (s_.shared > 0) shared_gradients(weight);
  }
  if (weight) {
    gathered_operand(kGatherBackward);
    if (!spread) send();
    grouped("fc1", GemmPass::weight_gradient, s_.fc1, s_.hidden);
  }
  if (input) {
    grouped("fc1", GemmPass::input_gradient, s_.fc1, s_.hidden);
    rows_from_experts("expert all-to-all of gradients", s_.hidden, s_.type);
    rows_from_experts("expert all-to-all of weights' gradients", 1, DType::fp32);
    add_up_choices();
    if (s_.shared > 0) gemm("shared fc1", GemmPass::input_gradient, 2 * s_.shared, s_.hidden);
    sum_over_tensor_ranks("tensor all-reduce backward", "sequence reduce-scatter backward");
    tensor_all_reduce("expert weights all-reduce", s_.sent_rows, DType::fp32);
    const RouterBytes bytes(s_);
    memory("route_backward", logits,
           (bytes.logits + 2 * bytes.choices + bytes.rows) / static_cast<double>(logits) + e, DType::fp32);
    router_product(GemmPass::input_gradient);
    if (s_.shared > 0 && s_.shared_gated) gemm("shared gate", GemmPass::input_gradient, 1, s_.hidden);
  }
  if (weight) router_product(GemmPass::weight_gradient);
  if (weight && s_.shared > 0) {
    gemm("shared fc1", GemmPass::weight_gradient, 2 * s_.shared, s_.hidden);
    if (s_.shared_gated) gemm("shared gate", GemmPass::weight_gradient, 1, s_.hidden);
  }
  // Rows of the experts twice; the gradients of the activation, of weights and of logits.
  allocations(input ? 5 : 2);
  if (weight) expert_scatter();
}

}  // namespace plumbline
