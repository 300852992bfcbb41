#include "analysis/operator_list.hpp"

#include <fmt/format.h>

namespace plumbline {
namespace {

/// Appends calls with the storage type and token count of one stage.
class List {
 public:
  explicit List(const StageShape& shape) : s_(shape) {}

  void gemm(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    OperatorCall call;
    call.kind = CallKind::gemm;
    call.label = fmt::format("{} {}", label, name_of(pass));
    call.type = s_.type;
    call.pass = pass;
    call.tokens = s_.tokens;
    call.out = out;
    call.in = in;
    calls.push_back(std::move(call));
  }
  void attention(bool is_backward) {
    OperatorCall call;
    call.kind = CallKind::attention;
    call.label = is_backward ? "attention backward" : "attention forward";
    call.type = s_.type;
    call.backward = is_backward;
    call.tokens = s_.seq;
    call.out = s_.head_dim;
    call.in = s_.heads / s_.kv_heads;
    call.elements = s_.heads * s_.batch;
    calls.push_back(std::move(call));
  }
  /// `traffic`: bytes read and written per element of the largest matrix.
  void memory(const char* name, std::int64_t elements, double traffic) {
    memory(name, elements, traffic, s_.type);
  }
  void memory(const char* name, std::int64_t elements, double traffic, DType type) {
    if (elements == 0) return;
    OperatorCall call;
    call.label = name;
    call.name = name;
    call.type = type;
    call.elements = elements;
    call.bytes_per_element = traffic;
    calls.push_back(std::move(call));
  }
  void all_reduce(const char* label, std::int64_t elements, DType type) {
    if (s_.tensor == 1) return;
    OperatorCall call;
    call.kind = CallKind::all_reduce;
    call.label = label;
    call.type = type;
    call.elements = elements;
    calls.push_back(std::move(call));
  }
  /// A product whose partial sums are all-reduced in fp32 and rounded into their tensor.
  void all_reduce_partial_sums(const char* label) {
    const std::int64_t stream = s_.tokens * s_.hidden;
    all_reduce(label, stream, DType::fp32);
    if (s_.tensor > 1 && s_.e() < 4) memory("copy", stream, 4 + static_cast<double>(s_.e()));
  }
  void allocations(std::int64_t count) {
    OperatorCall call;
    call.kind = CallKind::allocation;
    call.label = "tensor allocations";
    call.count = count;
    calls.push_back(std::move(call));
  }
  void repeat_from(std::size_t first, std::int64_t count) {
    for (std::size_t i = first; i < calls.size(); ++i) calls[i].count *= count;
    if (count == 0) calls.resize(first);
  }

  std::vector<OperatorCall> calls;

 private:
  const StageShape& s_;
};

double e(const StageShape& s) {
  return static_cast<double>(s.e());
}
double g(const StageShape& s) {
  return static_cast<double>(s.g());
}

void norm_forward(const StageShape& s, List& list) {
  list.memory(s.layer_norm ? "layernorm_forward" : "rmsnorm_forward", s.tokens * s.hidden, 2 * e(s));
}
void norm_backward(const StageShape& s, List& list) {
  list.memory(s.layer_norm ? "layernorm_backward" : "rmsnorm_backward", s.tokens * s.hidden, 4 * e(s));
}
void bias_backward(const StageShape& s, List& list, bool has, std::int64_t width) {
  if (has) list.memory("bias_backward", s.tokens * width, e(s));
}

}  // namespace

std::vector<OperatorCall> forward_calls(const StageShape& s) {
  List list(s);
  const std::int64_t stream = s.tokens * s.hidden;
  if (s.first) {
    list.memory("embedding_forward", stream, 2 * e(s));
    list.all_reduce("embedding all-reduce", stream, s.type);
    if (!s.rotary) list.memory("position_forward", stream, 3 * e(s));
    list.allocations(1);
  }
  const std::size_t layer = list.calls.size();
  norm_forward(s, list);
  list.gemm("qkv", GemmPass::forward, s.q + 2 * s.k, s.hidden);
  if (s.rotary) {
    list.memory("rope", s.tokens * s.q, 2 * e(s));
    list.memory("rope", s.tokens * s.k, 2 * e(s));
  }
  list.attention(false);
  list.gemm("projection", GemmPass::forward, s.hidden, s.q);
  list.all_reduce_partial_sums("tensor all-reduce forward");
  list.memory("add", stream, 3 * e(s));
  norm_forward(s, list);
  list.gemm("fc1", GemmPass::forward, s.fc1, s.hidden);
  if (s.swiglu) list.memory("swiglu_forward", s.tokens * s.fc1, 1.5 * e(s));
  if (!s.swiglu) list.memory("gelu_forward", s.tokens * s.fc1, 2 * e(s));
  list.gemm("fc2", GemmPass::forward, s.hidden, s.ffn);
  list.all_reduce_partial_sums("tensor all-reduce forward");
  list.memory("add", stream, 3 * e(s));
  list.allocations(9 + 2 * s.norm_rows);
  list.repeat_from(layer, s.layers);
  if (s.last) {
    norm_forward(s, list);
    list.gemm("output layer", GemmPass::forward, s.vocab, s.hidden);
    list.memory("cross_entropy_max", s.tokens * s.vocab, e(s));
    list.all_reduce("loss all-reduce", s.tokens, DType::fp32);
    list.memory("cross_entropy_sums", s.tokens * s.vocab, e(s));
    list.all_reduce("loss all-reduce", 2 * s.tokens, DType::fp32);
    list.memory("cross_entropy_gradient", s.tokens * s.vocab, 2 * e(s));
    list.allocations(4);
  }
  return list.calls;
}

std::vector<OperatorCall> backward_calls(const StageShape& s) {
  List list(s);
  const std::int64_t stream = s.tokens * s.hidden;
  if (s.last) {
    list.gemm("output layer", GemmPass::input_gradient, s.vocab, s.hidden);
    list.all_reduce_partial_sums("output layer all-reduce");
    list.gemm("output layer", GemmPass::weight_gradient, s.vocab, s.hidden);
    norm_backward(s, list);
    list.allocations(2);
  }
  const std::size_t layer = list.calls.size();
  list.gemm("fc2", GemmPass::input_gradient, s.hidden, s.ffn);
  list.gemm("fc2", GemmPass::weight_gradient, s.hidden, s.ffn);
  bias_backward(s, list, s.linear_bias, s.hidden);
  if (s.swiglu) list.memory("swiglu_backward", s.tokens * s.fc1, 2.5 * e(s));
  if (!s.swiglu) list.memory("gelu_backward", s.tokens * s.fc1, 3 * e(s));
  list.gemm("fc1", GemmPass::input_gradient, s.fc1, s.hidden);
  list.gemm("fc1", GemmPass::weight_gradient, s.fc1, s.hidden);
  bias_backward(s, list, s.linear_bias, s.fc1);
  list.all_reduce_partial_sums("tensor all-reduce backward");
  norm_backward(s, list);
  list.gemm("projection", GemmPass::input_gradient, s.hidden, s.q);
  list.gemm("projection", GemmPass::weight_gradient, s.hidden, s.q);
  bias_backward(s, list, s.linear_bias, s.hidden);
  list.attention(true);
  if (s.rotary) {
    list.memory("rope", s.tokens * s.q, 2 * e(s));
    list.memory("rope", s.tokens * s.k, 2 * e(s));
  }
  list.gemm("qkv", GemmPass::input_gradient, s.q + 2 * s.k, s.hidden);
  list.gemm("qkv", GemmPass::weight_gradient, s.q + 2 * s.k, s.hidden);
  bias_backward(s, list, s.qkv_bias, s.q + 2 * s.k);
  list.all_reduce_partial_sums("tensor all-reduce backward");
  norm_backward(s, list);
  list.allocations(s.swiglu ? 6 : 5);
  list.repeat_from(layer, s.layers);
  if (s.first) {
    list.memory("embedding_backward", stream, e(s) + 2 * g(s));
    if (!s.rotary) list.memory("position_backward", stream, e(s) + 2 * g(s));
  }
  return list.calls;
}

std::vector<OperatorCall> clear_calls(const StageShape& s) {
  List list(s);
  list.memory("fill", parameters_of(s).total(), g(s), s.grad_type);
  return list.calls;
}

std::vector<OperatorCall> update_calls(const StageShape& s, Optimizer optimizer, bool clip) {
  List list(s);
  const std::int64_t parameters = parameters_of(s).total();
  if (clip) list.memory("squared_norm", parameters, g(s), s.grad_type);
  const double master = s.type == DType::fp32 ? 0 : 8;
  if (optimizer == Optimizer::adam) {
    list.memory("adam", parameters, 2 * e(s) + g(s) + 16 + master);
  } else {
    list.memory("sgd", parameters, 2 * e(s) + g(s) + master);
  }
  return list.calls;
}

Flops flops_of(const OperatorCall& call) {
  const auto count = static_cast<double>(call.count);
  const auto tokens = static_cast<double>(call.tokens);
  const auto out = static_cast<double>(call.out);
  if (call.kind == CallKind::gemm) return {count * 2 * tokens * out * static_cast<double>(call.in)};
  if (call.kind == CallKind::attention) {
    // Scores and their product with the values, each 2·s²·d per head, half of it above the diagonal; the
    // backward recomputes the scores and has four more products of that size: 2.5 times the forward.
    const double forward = 2 * tokens * tokens * out;
    return {count * static_cast<double>(call.elements) * forward * (call.backward ? 2.5 : 1)};
  }
  return {0};
}

}  // namespace plumbline
