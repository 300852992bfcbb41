// Costs of the emulated operators of a layer.
#include "kernels/emulated/emulated_operators.hpp"

#include <algorithm>
#include <array>

#include "core/base/hash.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/checked.hpp"
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline {

bool operator==(const EmulatedCall& a, const EmulatedCall& b) {
  const auto numbers = [](const EmulatedCall& c) {
    return std::array<std::int64_t, 16>{c.m,
                                        c.n,
                                        c.k,
                                        c.attention.batch,
                                        c.attention.seq,
                                        c.attention.heads,
                                        c.attention.kv_heads,
                                        c.attention.head_dim,
                                        c.attention.window,
                                        c.attention.past,
                                        c.attention.prefix,
                                        c.attention.key_start,
                                        c.attention.key_count,
                                        c.attention.value_dim,
                                        c.elements,
                                        c.bytes};
  };
  return a.name == b.name && a.type == b.type && a.a_transposed == b.a_transposed &&
         a.b_transposed == b.b_transposed && a.accumulate == b.accumulate &&
         a.bias_gradient == b.bias_gradient && numbers(a) == numbers(b);
}

std::unique_ptr<Operators> make_emulated_operators(EmulatedClock& clock, CallTime time) {
  return std::make_unique<Checked<emulated::EmulatedOperators>>(clock, std::move(time));
}

namespace emulated {

void EmulatedOperators::synchronize() {
  clock_.catch_up();
}

std::size_t EmulatedOperators::Hash::operator()(const EmulatedCall& call) const {
  std::uint64_t hash = call.name.size() + (call.a_transposed ? 64 : 0) + (call.b_transposed ? 128 : 0) +
                       (call.accumulate ? 256 : 0) + (call.bias_gradient ? 512 : 0);
  for (const std::int64_t value :
       {call.m, call.n, call.k, call.attention.seq, call.attention.heads, call.attention.window,
        call.attention.past, call.attention.prefix, call.attention.key_start, call.attention.key_count,
        call.elements, call.bytes}) {
    hash = mix_word(hash, static_cast<std::uint64_t>(value));
  }
  return hash;
}

void EmulatedOperators::take(const EmulatedCall& call) {
  if (!clock_.runs()) return;
  auto found = known_.find(call);
  if (found == known_.end()) found = known_.emplace(call, time_(call)).first;
  clock_.advance(found->second);
}

void EmulatedOperators::pass_over(std::string_view name, DType type, std::initializer_list<Matrix> read,
                                  std::initializer_list<Matrix> written) {
  if (!clock_.runs()) return;
  EmulatedCall call;
  call.name = name;
  call.type = type;
  for (const auto& list : {read, written}) {
    for (const Matrix& x : list) {
      call.elements = std::max(call.elements, x.elements());
      call.bytes += x.elements() * size_of(x.dtype);
    }
  }
  if (call.elements > 0) take(call);
}

void EmulatedOperators::gemm(const Gemm& gemm) {
  const Matrix& a = gemm.a;
  const Matrix& c = gemm.c;
  EmulatedCall call;
  call.name = "gemm";
  call.type = a.dtype;
  call.m = c.rows;
  call.n = c.cols;
  call.k = gemm.a_transposed ? a.rows : a.cols;
  call.a_transposed = gemm.a_transposed;
  call.b_transposed = gemm.b_transposed;
  call.accumulate = gemm.accumulate;
  call.bias_gradient = gemm.bias_gradient.data != nullptr;
  take(call);
}

void EmulatedOperators::rmsnorm_forward(Matrix x, Matrix /*w*/, Matrix y, Matrix /*rstd*/,
                                        double /*epsilon*/) {
  pass_over("rmsnorm_forward", x.dtype, {x}, {y});
}

void EmulatedOperators::add_rmsnorm_forward(const ResidualSum& added, Matrix /*w*/, Matrix y, Matrix /*rstd*/,
                                            double /*epsilon*/) {
  pass_over("add_rmsnorm_forward", y.dtype, {added.a, added.b}, {added.sum, y});
}

void EmulatedOperators::add_layernorm_forward(const ResidualSum& added, Matrix /*w*/, Matrix /*b*/, Matrix y,
                                              Matrix /*mean*/, Matrix /*rstd*/, double /*epsilon*/) {
  pass_over("add_layernorm_forward", y.dtype, {added.a, added.b}, {added.sum, y});
}

void EmulatedOperators::rmsnorm_backward(Matrix dy, Matrix x, Matrix /*w*/, Matrix /*rstd*/, Matrix residual,
                                         Matrix dx, Matrix /*dw*/) {
  pass_over("rmsnorm_backward", x.dtype, {dy, x, residual}, {dx});
}

void EmulatedOperators::layernorm_forward(Matrix x, Matrix /*w*/, Matrix /*b*/, Matrix y, Matrix /*mean*/,
                                          Matrix /*rstd*/, double /*epsilon*/) {
  pass_over("layernorm_forward", x.dtype, {x}, {y});
}

void EmulatedOperators::layernorm_backward(Matrix dy, Matrix x, Matrix /*w*/, Matrix /*mean*/,
                                           Matrix /*rstd*/, Matrix residual, Matrix dx, Matrix /*dw*/,
                                           Matrix /*db*/) {
  pass_over("layernorm_backward", x.dtype, {dy, x, residual}, {dx});
}

void EmulatedOperators::head_norm_forward(Matrix x, Matrix /*w*/, Matrix y, Matrix /*rstd*/,
                                          double /*epsilon*/) {
  pass_over("head_norm_forward", x.dtype, {x}, {y});
}

void EmulatedOperators::head_norm_backward(Matrix dy, Matrix x, Matrix /*w*/, Matrix /*rstd*/, Matrix dx,
                                           Matrix /*dw*/) {
  pass_over("head_norm_backward", x.dtype, {dy, x}, {dx});
}

void EmulatedOperators::rope(Matrix x, Matrix /*cos*/, Matrix /*sin*/, std::int64_t /*head_dim*/,
                             bool /*inverse*/) {
  pass_over("rope", x.dtype, {x}, {x});
}

void EmulatedOperators::rope_neighbours(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim,
                                        bool inverse) {
  rope(x, cos, sin, head_dim, inverse);
}

std::int64_t EmulatedOperators::attention_scratch(const AttentionShape& shape, DType /*type*/) const {
  // The formula of kernels/cpu/attention/attention.hpp.
  const std::int64_t rows = std::min<std::int64_t>(128, shape.seq);
  const std::int64_t d = shape.head_dim;
  const std::int64_t values = shape.values();
  return 2 * rows * shape.keys() + 2 * shape.keys() * (d + values) +
         rows * (d + values + std::max(d, values)) + rows;
}

void EmulatedOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix /*k*/, Matrix /*v*/,
                                          Matrix /*out*/, Matrix /*lse*/, Matrix scratch) {
  require_scratch("attention_forward", scratch, attention_scratch(shape, q.dtype));
  attend(shape.dropout.probability > 0 ? "attention_forward_dropout" : "attention_forward", shape, q.dtype);
}

void EmulatedOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix /*k*/, Matrix /*v*/,
                                           Matrix /*out*/, Matrix /*lse*/, Matrix /*dout*/, Matrix /*dq*/,
                                           Matrix /*dk*/, Matrix /*dv*/, Matrix scratch) {
  require_scratch("attention_backward", scratch, attention_scratch(shape, q.dtype));
  attend(shape.dropout.probability > 0 ? "attention_backward_dropout" : "attention_backward", shape, q.dtype);
}

void EmulatedOperators::unfused_attention_forward(const AttentionShape& shape, Matrix q, Matrix /*k*/,
                                                  Matrix /*v*/, const UnfusedAttention& /*kept*/,
                                                  Matrix /*out*/, Matrix /*lse*/, Matrix scratch) {
  require_scratch("unfused_attention_forward", scratch, attention_scratch(shape, q.dtype));
  attend(shape.dropout.probability > 0 ? "unfused_attention_forward_dropout" : "unfused_attention_forward",
         shape, q.dtype);
}

void EmulatedOperators::unfused_attention_backward(const AttentionShape& shape, Matrix q, Matrix /*k*/,
                                                   Matrix /*v*/, const UnfusedAttention& /*kept*/,
                                                   Matrix /*dout*/, Matrix /*dq*/, Matrix /*dk*/,
                                                   Matrix /*dv*/, Matrix scratch) {
  require_scratch("unfused_attention_backward", scratch, attention_scratch(shape, q.dtype));
  attend(shape.dropout.probability > 0 ? "unfused_attention_backward_dropout" : "unfused_attention_backward",
         shape, q.dtype);
}

void EmulatedOperators::attend(std::string_view name, const AttentionShape& shape, DType type) {
  EmulatedCall call;
  call.name = name;
  call.type = type;
  call.attention = shape;
  take(call);
}

void EmulatedOperators::attention_merge(Matrix out, Matrix /*lse*/, Matrix part, Matrix /*part_lse*/) {
  pass_over("attention_merge", out.dtype, {out, part}, {out});
}

void EmulatedOperators::swiglu_forward(Matrix gate_up, Matrix y) {
  pass_over("swiglu_forward", y.dtype, {gate_up}, {y});
}

void EmulatedOperators::swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  pass_over("swiglu_backward", dy.dtype, {dy, gate_up}, {dgate_up});
}

void EmulatedOperators::gelu_forward(Matrix x, Matrix y) {
  pass_over("gelu_forward", x.dtype, {x}, {y});
}

void EmulatedOperators::gelu_backward(Matrix dy, Matrix x, Matrix dx) {
  pass_over("gelu_backward", x.dtype, {dy, x}, {dx});
}

// Operators that move as many bytes take the time of the measured one.
void EmulatedOperators::geglu_forward(Matrix gate_up, Matrix y) {
  swiglu_forward(gate_up, y);
}

void EmulatedOperators::geglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) {
  swiglu_backward(dy, gate_up, dgate_up);
}

void EmulatedOperators::pointwise_forward(Pointwise /*function*/, Matrix x, Matrix y) {
  gelu_forward(x, y);
}

void EmulatedOperators::pointwise_backward(Pointwise /*function*/, Matrix dy, Matrix x, Matrix dx) {
  gelu_backward(dy, x, dx);
}

void EmulatedOperators::add(Matrix a, Matrix b, Matrix /*bias*/, Matrix y) {
  pass_over("add", a.dtype, {a, b}, {y});
}

void EmulatedOperators::add_multiple(Matrix a, Matrix b, double /*factor*/, Matrix bias, Matrix y) {
  add(a, b, bias, y);
}

void EmulatedOperators::bias_backward(Matrix dy, Matrix /*dbias*/) {
  pass_over("bias_backward", dy.dtype, {dy}, {});
}

}  // namespace emulated
}  // namespace plumbline
