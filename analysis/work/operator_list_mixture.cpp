// The feed-forward part of an MoE layer, call by call (bench/training/mixtures.md).
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

constexpr const char* kGatherForward = "sequence all-gather forward";
constexpr const char* kGatherBackward = "sequence all-gather backward";

/// A number of 4 bytes for every choice, for the row of every one, and the router's logits.
struct RouterBytes {
  explicit RouterBytes(const StageShape& s)
      : choices(4 * static_cast<double>(s.moe.choices)),
        rows(4 * static_cast<double>(s.folds_experts() ? s.moe.choices : s.moe.choice_rows)),
        logits(4 * static_cast<double>(s.stream.tokens * s.moe.experts)) {}
  double choices;
  double rows;
  double logits;
};

}  // namespace

/// As prepare_operands, of all experts together.
void CallList::prepare_experts(GemmPass pass, std::int64_t out, std::int64_t in) {
  if (pass == GemmPass::weight_gradient) {
    each_expert([&](std::int64_t rows) {
      transpose(rows * out);
      transpose(rows * in);
    });
    return allocations(2);
  }
  if (s_.sharding.zero < 3) return;
  const std::size_t first = calls.size();
  quantize_weight(out * in, pass == GemmPass::input_gradient ? Ways::transposed : Ways::plain);
  for (std::size_t i = first; i < calls.size(); ++i) calls[i].count = s_.local_experts();
  allocations(1);
}

void CallList::grouped(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
  if (s_.numerics.fp8) prepare_experts(pass, out, in);
  each_expert([&](std::int64_t rows) {
    gemm(label, pass, out, in);
    last<GemmCall>().tokens = rows;
    last<GemmCall>().fp8 = s_.numerics.fp8;
  });
}

void CallList::router_product(GemmPass pass) {
  gemm("router", pass, s_.moe.experts, s_.stream.hidden);
}

void CallList::mixture_forward(bool again) {
  const RouterBytes bytes(s_);
  const std::int64_t logits = s_.stream.tokens * s_.moe.experts;
  gathered(kGatherForward);
  router_product(GemmPass::forward);
  memory("route", logits, (bytes.logits + bytes.choices) / static_cast<double>(logits), DType::fp32);
  if ((s_.moe.global_balance || s_.moe.context_balance) && !again) {
    const bool all = s_.moe.global_balance;
    collective(CallKind::all_reduce, "expert load all-reduce", all ? Group::data : Group::context,
               all ? s_.sharding.data : s_.cp.ranks, s_.moe.experts, DType::fp32);
    allocations(1);
  }
  const double per_logit = (bytes.logits + bytes.choices) / static_cast<double>(logits);
  const std::int64_t own = logits / s_.moe.choices * s_.sent_choices();
  if (own < logits) memory("route", own, per_logit, DType::fp32);
  memory("arrange", own, (bytes.logits + 2 * (bytes.choices + bytes.rows)) / static_cast<double>(logits),
         DType::fp32);
  open_dispatch();
  const Meanwhile shared = if_hidden([&] {
    shared_fc1();
    shared_activation();
  });
  tokens_to_experts("expert all-to-all forward", "expert all-gather forward", shared);
  quantize_rows(s_.stream.hidden);
  grouped("fc1", GemmPass::forward, s_.mlp.fc1, s_.stream.hidden);
  if (!shared) shared_fc1();
  experts_activation();
  if (!shared) shared_activation();
  allocations(6);
}

/// Activation of the expert rows, each scaled by its weight.
void CallList::experts_activation() {
  const auto e = static_cast<double>(s_.numerics.e());
  memory("swiglu_forward", s_.mlp_rows() * s_.mlp.fc1, 1.5 * e);
  memory("scale_rows", s_.mlp_rows() * s_.mlp.ffn, 2 * e);
  quantize_rows(s_.mlp.ffn);
}

void CallList::shared_fc1() {
  if (s_.moe.shared > 0 && s_.moe.shared_gated) {
    gemm("shared gate", GemmPass::forward, 1, s_.stream.hidden);
    memory("sigmoid_forward", s_.stream.tokens, 8, DType::fp32);
  }
  quantize_shared(s_.stream.hidden);
  if (s_.moe.shared > 0) linear("shared fc1", GemmPass::forward, 2 * s_.moe.shared, s_.stream.hidden);
}

void CallList::shared_activation() {
  const auto e = static_cast<double>(s_.numerics.e());
  memory("swiglu_forward", s_.stream.tokens * 2 * s_.moe.shared, 1.5 * e);
  if (s_.moe.shared_gated) memory("scale_rows", s_.stream.tokens * s_.moe.shared, 2 * e);
  quantize_shared(s_.moe.shared);
}

void CallList::mixture_again() {
  const RecomputeModules& modules = s_.recomputation.modules;
  if (modules.moe) return mixture_forward(true);
  if (modules.shared_experts) {
    gathered(kGatherForward);
    shared_fc1();
    shared_activation();
    allocations(s_.moe.shared_gated ? 3 : 2);
  }
  if (!modules.moe_act) return;
  experts_activation();
  allocations(1);
}

/// Labels of the calls that combine the experts' results.
struct CallList::ResultLabels {
  const char* exchange;
  const char* scatter;  // of sums, if tokens are gathered
  const char* all_reduce;
  const char* reduce_scatter;
};

void CallList::mixture_output() {
  grouped("fc2", GemmPass::forward, s_.stream.hidden, s_.mlp.ffn);
  add_up_choices({"expert all-to-all of results", "expert reduce-scatter of results",
                  "tensor all-reduce forward", "sequence reduce-scatter forward"},
                 [&] { linear("shared fc2", GemmPass::forward, s_.stream.hidden, s_.moe.shared); }, {});
  allocations(1);
}

/// Combines the rows of every token, those of other ranks' experts among them. `product`: the shared expert's
/// product, if any; `after`: more of that expert's work while rows are in transit. Where experts have their
/// own sharding, only the product is summed over tensor ranks.
void CallList::add_up_choices(const ResultLabels& labels, const Meanwhile& product, const Meanwhile& after) {
  const bool apart = s_.sums_experts_apart();
  const bool shared = s_.moe.shared > 0;
  const auto over_tensor_ranks = [&] { sum_over_tensor_ranks(labels.all_reduce, labels.reduce_scatter); };
  const auto of_shared = [&] {
    if (apart && shared) allocations(1);
    if (shared) product();
    if (apart && shared) over_tensor_ranks();
    if (after) after();
  };
  const Meanwhile meanwhile = if_hidden(of_shared);
  const DType sums = s_.sharding.tensor > 1 && !apart ? s_.numerics.sum_type() : s_.numerics.type;
  if (s_.gathers_tokens()) {
    const std::int64_t all = s_.expert.group * s_.expert.sent * s_.stream.hidden;
    const auto moved =
        static_cast<double>(s_.expert.rows * s_.stream.hidden * s_.numerics.e() + all * size_of(sums));
    memory("combine_rows", all, moved / static_cast<double>(all));
    among_experts(CallKind::reduce_scatter, labels.scatter, all, sums);
    allocations(1);
  } else {
    const std::int64_t rows = s_.sent_rows() * s_.stream.hidden;
    const std::int64_t tokens = s_.exchanges_rows() ? s_.expert.sent : s_.stream.tokens;
    rows_from_experts(labels.exchange, s_.stream.hidden, s_.numerics.type, meanwhile);
    const double passes = shared && !apart ? 2 : 1;  // on top of the shared expert's product
    const double summed = passes * static_cast<double>(tokens * s_.stream.hidden * size_of(sums));
    memory("combine_rows", rows, static_cast<double>(s_.numerics.e()) + summed / static_cast<double>(rows));
  }
  if (!meanwhile) of_shared();
  if (!apart) return over_tensor_ranks();
  if (shared) memory("add", s_.stream.rows * s_.stream.hidden, 3 * static_cast<double>(s_.numerics.e()));
}

void CallList::shared_gradients(bool weight) {
  const auto e = static_cast<double>(s_.numerics.e());
  const std::int64_t activation = s_.stream.tokens * s_.moe.shared;
  if (s_.moe.shared_gated) {
    memory("swiglu_forward", 2 * activation, 1.5 * e);
    memory("row_products", activation, 2 * e);
    memory("scale_rows", activation, 2 * e);
    tensor_all_reduce("shared weights all-reduce", s_.stream.tokens, DType::fp32);
    memory("sigmoid_backward", s_.stream.tokens, 12, DType::fp32);
    memory("copy", s_.stream.tokens, 4 + e);
    if (!weight && !s_.numerics.fp8) memory("scale_rows", activation, 2 * e);
    allocations(s_.numerics.fp8 ? 3 : 2);
  }
  memory("swiglu_backward", 2 * activation, 2.5 * e);
  quantize_shared(2 * s_.moe.shared);
  allocations(2);
}

/// Gradients of the shared expert's second product.
void CallList::shared_output_gradients(bool input, bool weight) {
  quantize_shared(s_.stream.hidden);
  if (s_.moe.shared > 0 && input)
    linear("shared fc2", GemmPass::input_gradient, s_.stream.hidden, s_.moe.shared);
  if (s_.moe.shared > 0 && weight)
    linear("shared fc2", GemmPass::weight_gradient, s_.stream.hidden, s_.moe.shared);
}

void CallList::shared_input_weights() {
  if (s_.moe.shared == 0) return;
  quantize_shared(s_.stream.hidden);
  linear("shared fc1", GemmPass::weight_gradient, 2 * s_.moe.shared, s_.stream.hidden);
  if (s_.moe.shared_gated) gemm("shared gate", GemmPass::weight_gradient, 1, s_.stream.hidden);
}

void CallList::mixture_backward(bool input, bool weight) {
  if (!input && s_.adapters.own) return;  // frozen
  const auto e = static_cast<double>(s_.numerics.e());
  const std::int64_t logits = s_.stream.tokens * s_.moe.experts;
  const std::int64_t activation = s_.mlp_rows() * s_.mlp.ffn;
  const bool spread = s_.exchanges_rows();
  const bool apart = !weight;  // weight gradients are another action's
  weight = weight && !s_.adapters.own;
  const auto send = [&](const Meanwhile& meanwhile) {
    tokens_to_experts("expert all-to-all backward", "expert all-gather backward", meanwhile);
    quantize_rows(s_.stream.hidden);
  };
  const Meanwhile shared = input ? if_hidden([&] {
    shared_output_gradients(input, weight);
    shared_gradients(!apart);
  })
                                 : Meanwhile();
  if (!s_.folds_experts() || s_.moe.shared > 0) gathered(kGatherBackward);
  if (input || !spread) send(shared);
  if (input) grouped("fc2", GemmPass::input_gradient, s_.stream.hidden, s_.mlp.ffn);
  if (weight) grouped("fc2", GemmPass::weight_gradient, s_.stream.hidden, s_.mlp.ffn);
  if (!shared) shared_output_gradients(input, weight);
  if (input) {
    memory("swiglu_forward", s_.mlp_rows() * s_.mlp.fc1, 1.5 * e);
    memory("row_products", activation, 2 * e);
    memory("scale_rows", activation, 2 * e);
    if (apart && !s_.numerics.fp8) memory("scale_rows", activation, 2 * e);  // the activation once more
    memory("swiglu_backward", s_.mlp_rows() * s_.mlp.fc1, 2.5 * e);
    quantize_rows(s_.mlp.fc1);
    if (s_.moe.shared > 0 && !shared) shared_gradients(!apart);
  }
  if (weight) {
    gathered(kGatherBackward);
    if (!spread) send({});
    grouped("fc1", GemmPass::weight_gradient, s_.mlp.fc1, s_.stream.hidden);
  }
  if (input) {
    grouped("fc1", GemmPass::input_gradient, s_.mlp.fc1, s_.stream.hidden);
    add_up_choices(
        {"expert all-to-all of gradients", "expert reduce-scatter of gradients", "tensor all-reduce backward",
         "sequence reduce-scatter backward"},
        [&] { linear("shared fc1", GemmPass::input_gradient, 2 * s_.moe.shared, s_.stream.hidden); },
        shared && weight ? [&] { shared_input_weights(); } : Meanwhile());
    weights_from_experts();
    const RouterBytes bytes(s_);
    memory("route_backward", logits,
           (bytes.logits + 2 * bytes.choices + bytes.rows) / static_cast<double>(logits) + e, DType::fp32);
    router_product(GemmPass::input_gradient);
    if (s_.moe.shared > 0 && s_.moe.shared_gated)
      gemm("shared gate", GemmPass::input_gradient, 1, s_.stream.hidden);
  }
  if (weight) router_product(GemmPass::weight_gradient);
  if (weight && !shared) shared_input_weights();
  // Rows of the experts twice; the gradients of the activation, of weights and of logits.
  allocations(input ? 5 : 2);
  if (weight) expert_scatter();
}

}  // namespace plumbline
