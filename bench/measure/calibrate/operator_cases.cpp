// Operands for repeatable operator calls.
#include "bench/measure/calibrate/operator_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>

namespace plumbline {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr Dropout kDropout{0.1, 1, 1, 1, 0};

/// A matrix in new memory: numbers of about 1 in a fixed pseudo-random order.
Matrix make(std::int64_t rows, std::int64_t cols, DType type, std::vector<std::vector<std::byte>>& memory) {
  const std::int64_t bytes = rows * cols * size_of(type);
  memory.emplace_back(static_cast<std::size_t>(bytes + kAlignment));
  const auto start = reinterpret_cast<std::uintptr_t>(memory.back().data());
  std::byte* data = memory.back().data() + (kAlignment - start % kAlignment) % kAlignment;
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto value = static_cast<float>(state >> 8) * (2.0F / (1U << 24U)) - 1.0F;
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (type == DType::fp32) std::memcpy(data + 4 * i, &bits, sizeof bits);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    if (type == DType::bf16) std::memcpy(data + 2 * i, &half, sizeof half);
    const auto id = static_cast<std::int32_t>((state >> 8) % 4096);
    if (type == DType::int32) std::memcpy(data + 4 * i, &id, sizeof id);
    // Exponents around that of 1 in both 8-bit types.
    if (is_fp8(type)) data[i] = static_cast<std::byte>((state >> 24 & 0x8F) | 0x30);
  }
  return {data, rows, cols, type};
}

/// With matrices that make(rows, cols, type) gives.
template <class Make>
Gemm product_with(const ProductShape& s, Make&& make_matrix) {
  const auto oriented = [&](std::int64_t rows, std::int64_t cols, bool transposed, DType type) {
    return transposed ? make_matrix(cols, rows, type) : make_matrix(rows, cols, type);
  };
  Gemm gemm{.a = oriented(s.m, s.k, s.a_transposed, s.type),
            .b = oriented(s.k, s.n, s.b_transposed, s.b_type.value_or(s.type)),
            .c = make_matrix(s.m, s.n, s.c_type),
            .a_transposed = s.a_transposed,
            .b_transposed = s.b_transposed,
            .accumulate = s.accumulate};
  if (is_fp8(s.type)) {
    for (Matrix* scale : {&gemm.a_inverse_scale, &gemm.b_inverse_scale})
      *scale = make_matrix(1, 1, DType::fp32);
  }
  return gemm;
}

/// Collects cases whose operands stay alive through a shared pointer in each.
class Collector {
 public:
  Collector(Operators& operators, MemorySource* device) {
    if (device != nullptr) memory_->on_device = std::make_unique<DeviceOperands>(operators, *device);
  }
  Matrix matrix(std::int64_t rows, std::int64_t cols, DType type) {
    return memory_->on_device ? memory_->on_device->matrix(rows, cols, type)
                              : make(rows, cols, type, memory_->on_host);
  }
  /// `operands`: operands read or written once per call; one that is both is listed twice.
  void add(const char* name, const std::vector<Matrix>& operands, std::function<void()> run,
           Flops flops = {}) {
    Bytes bytes;
    std::int64_t elements = 0;
    for (const Matrix& operand : operands) {
      bytes += operand.bytes();
      elements = std::max(elements, operand.elements());
    }
    cases_.push_back({name, bytes, elements, flops, [keep = memory_, call = std::move(run)] { call(); }});
  }
  std::vector<OperatorCase> take() { return std::move(cases_); }

 private:
  struct Memory {
    std::vector<std::vector<std::byte>> on_host;
    std::unique_ptr<DeviceOperands> on_device;
  };
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::vector<OperatorCase> cases_;
};

void add_norms(Collector& to, Operators& op, const OperatorShape& s) {
  const std::int64_t tokens = s.batch * s.seq;
  const Matrix x = to.matrix(tokens, s.hidden, s.type);
  const Matrix y = to.matrix(tokens, s.hidden, s.type);
  const Matrix dx = to.matrix(tokens, s.hidden, s.type);
  const Matrix w = to.matrix(1, s.hidden, s.type);
  const Matrix mean = to.matrix(1, tokens, DType::fp32);
  const Matrix rstd = to.matrix(1, tokens, DType::fp32);
  const Matrix dw = to.matrix(1, s.hidden, DType::fp32);
  const Matrix db = to.matrix(1, s.hidden, DType::fp32);
  to.add("rmsnorm_forward", {x, y}, [=, &op] { op.rmsnorm_forward(x, w, y, rstd, 1e-6); });
  to.add("rmsnorm_backward", {y, x, dx, dx}, [=, &op] { op.rmsnorm_backward(y, x, w, rstd, dx, dx, dw); });
  to.add("layernorm_forward", {x, y}, [=, &op] { op.layernorm_forward(x, w, w, y, mean, rstd, 1e-5); });
  to.add("layernorm_backward", {y, x, dx, dx},
         [=, &op] { op.layernorm_backward(y, x, w, mean, rstd, dx, dx, dw, db); });
  to.add("add", {x, y, dx}, [=, &op] { op.add(x, y, {}, dx); });
  const Matrix sum = to.matrix(tokens, s.hidden, s.type);
  const ResidualSum added{.a = x, .b = y, .sum = sum};
  to.add("add_rmsnorm_forward", {x, y, sum, dx},
         [=, &op] { op.add_rmsnorm_forward(added, w, dx, rstd, 1e-6); });
  to.add("add_layernorm_forward", {x, y, sum, dx},
         [=, &op] { op.add_layernorm_forward(added, w, w, dx, mean, rstd, 1e-5); });
  const Matrix mask = to.matrix(tokens, s.hidden, DType::uint8);
  to.add("dropout_mask", {mask}, [=, &op] { op.dropout_mask(kDropout, mask); });
  op.dropout_mask(kDropout, mask);
  to.add("dropout_add", {x, y, mask, dx},
         [=, &op] { op.dropout_add(x, {}, y, mask, kDropout.probability, dx); });
  to.add("dropout_backward", {x, mask, dx},
         [=, &op] { op.dropout_backward(x, mask, kDropout.probability, dx); });
  to.add("bias_backward", {x}, [=, &op] { op.bias_backward(x, dw); });
  to.add("copy", {x, y}, [=, &op] { op.copy(x, y); });
}

void add_attention(Collector& to, Operators& op, const OperatorShape& s) {
  const std::int64_t tokens = s.batch * s.seq;
  const std::int64_t q_cols = s.heads * s.head_dim;
  const std::int64_t kv_cols = s.kv_heads * s.head_dim;
  const AttentionShape shape{s.batch, s.seq, s.heads, s.kv_heads, s.head_dim};
  const Matrix qkv = to.matrix(tokens, q_cols + 2 * kv_cols, s.type);
  const Matrix dqkv = to.matrix(tokens, q_cols + 2 * kv_cols, s.type);
  const Matrix out = to.matrix(tokens, q_cols, s.type);
  const Matrix dout = to.matrix(tokens, q_cols, s.type);
  const Matrix lse = to.matrix(s.batch * s.heads, s.seq, DType::fp32);
  const Matrix scratch = to.matrix(1, op.attention_scratch(shape, s.type), DType::fp32);
  const Matrix cos = to.matrix(s.seq, s.head_dim / 2, DType::fp32);
  const Matrix sin = to.matrix(s.seq, s.head_dim / 2, DType::fp32);
  op.fill(cos, 0.6);  // a rotation: repeated calls must not let the numbers run away or die out
  op.fill(sin, 0.8);
  const auto q = [=](const Matrix& m) { return m.columns(0, q_cols); };
  const auto k = [=](const Matrix& m) { return m.columns(q_cols, kv_cols); };
  const auto v = [=](const Matrix& m) { return m.columns(q_cols + kv_cols, kv_cols); };
  // Two products forward, five backward, over the lower triangle.
  const double product = 2.0 * static_cast<double>(tokens * q_cols) * static_cast<double>(s.seq + 1) / 2;
  to.add("rope", {q(qkv), q(qkv)}, [=, &op] { op.rope(q(qkv), cos, sin, s.head_dim, false); });
  AttentionShape dropping = shape;
  dropping.dropout = kDropout;
  for (const AttentionShape& each : {shape, dropping}) {
    const bool drops = each.dropout.probability > 0;
    to.add(drops ? "attention_forward_dropout" : "attention_forward", {qkv, out},
           [=, &op] { op.attention_forward(each, q(qkv), k(qkv), v(qkv), out, lse, scratch); },
           {2 * product});
    op.attention_forward(each, q(qkv), k(qkv), v(qkv), out, lse, scratch);
    to.add(drops ? "attention_backward_dropout" : "attention_backward", {qkv, out, dout, dqkv},
           [=, &op] {
             op.attention_backward(each, q(qkv), k(qkv), v(qkv), out, lse, dout, q(dqkv), k(dqkv), v(dqkv),
                                   scratch);
           },
           {5 * product});
  }
}

void add_activations(Collector& to, Operators& op, const OperatorShape& s) {
  const std::int64_t tokens = s.batch * s.seq;
  const Matrix gate_up = to.matrix(tokens, 2 * s.ffn, s.type);
  const Matrix dgate_up = to.matrix(tokens, 2 * s.ffn, s.type);
  const Matrix y = to.matrix(tokens, s.ffn, s.type);
  to.add("swiglu_forward", {gate_up, y}, [=, &op] { op.swiglu_forward(gate_up, y); });
  to.add("swiglu_backward", {y, gate_up, dgate_up}, [=, &op] { op.swiglu_backward(y, gate_up, dgate_up); });
  to.add("gelu_forward", {gate_up, dgate_up}, [=, &op] { op.gelu_forward(gate_up, dgate_up); });
  const Matrix dx = to.matrix(tokens, 2 * s.ffn, s.type);
  to.add("gelu_backward", {gate_up, dgate_up, dx}, [=, &op] { op.gelu_backward(dgate_up, gate_up, dx); });
}

void add_vocabulary(Collector& to, Operators& op, const OperatorShape& s) {
  const std::int64_t tokens = s.batch * s.seq;
  const Matrix ids = to.matrix(1, tokens, DType::int32);
  const Matrix table = to.matrix(s.vocab, s.hidden, s.type);
  const Matrix dtable = to.matrix(s.vocab, s.hidden, DType::fp32);
  const Matrix x = to.matrix(tokens, s.hidden, s.type);
  const Matrix logits = to.matrix(tokens, s.vocab, s.type);
  const Matrix row_max = to.matrix(1, tokens, DType::fp32);
  const Matrix sums = to.matrix(2, tokens, DType::fp32);
  to.add("embedding_forward", {x, x}, [=, &op] { op.embedding_forward(ids, table, 0, x); });
  to.add("embedding_backward", {x, dtable.row_range(0, tokens), dtable.row_range(0, tokens)},
         [=, &op] { op.embedding_backward(ids, x, 0, dtable); });
  to.add("cross_entropy_max", {logits}, [=, &op] { op.cross_entropy_max(logits, s.vocab, row_max); });
  to.add("cross_entropy_sums", {logits},
         [=, &op] { op.cross_entropy_sums(logits, s.vocab, 0, ids, row_max, sums); });
  const Matrix choice = to.matrix(3, tokens, DType::fp32);
  to.add("greedy_choice", {logits}, [=, &op] { op.greedy_choice(logits, s.vocab, choice); });
  to.add("cross_entropy_gradient", {logits, logits},
         [=, &op] { op.cross_entropy_gradient(logits, s.vocab, 0, ids, row_max, sums, 1.0); });
  const Matrix product = to.matrix(tokens, s.hidden, DType::fp32);
  op.fill(row_max, 1);
  op.fill(sums, 1);
  to.add("vocab_softmax", {logits, logits},
         [=, &op] { op.vocab_softmax(logits, s.vocab, row_max, sums.row_range(0, 1)); });
  to.add("vocab_gradient", {logits, logits},
         [=, &op] { op.vocab_gradient(logits, s.vocab, 0, ids, row_max, 1.0); });
  to.add("vocab_input_gradient", {product, product, x},
         [=, &op] { op.vocab_input_gradient(product, table, 0, ids, row_max, 1.0); });
}

void add_optimizer(Collector& to, Operators& op, const OperatorShape& s) {
  const Matrix parameter = to.matrix(1, s.parameters, s.type);
  const Matrix gradient = to.matrix(1, s.parameters, DType::fp32);
  const Matrix moment1 = to.matrix(1, s.parameters, DType::fp32);
  const Matrix moment2 = to.matrix(1, s.parameters, DType::fp32);
  const Matrix master = s.type == DType::fp32 ? Matrix{} : to.matrix(1, s.parameters, DType::fp32);
  op.fill(moment2, 1);
  std::vector<Matrix> operands{gradient, moment1, moment1, moment2, moment2, parameter};
  if (s.type == DType::fp32) {
    operands.push_back(parameter);
  } else {
    operands.insert(operands.end(), {master, master});
  }
  to.add("adam", operands, [=, &op] { op.adam(parameter, gradient, master, moment1, moment2, AdamStep{}); });
  to.add("squared_norm", {gradient}, [=, &op] { op.squared_norm(gradient); });
  to.add("fill", {gradient}, [=, &op] { op.fill(gradient, 0); });
}

void add_fp8(Collector& to, Operators& op, const OperatorShape& s) {
  const std::int64_t tokens = s.batch * s.seq;
  const Matrix x = to.matrix(tokens, s.ffn, s.type);
  const Matrix y = to.matrix(tokens, s.ffn, DType::fp8_e4m3);
  const Matrix turned = to.matrix(s.ffn, tokens, DType::fp8_e4m3);
  const Matrix scales = to.matrix(2, 1, DType::fp32);
  const Matrix amax = to.matrix(1, 1, DType::fp32);
  op.fill(scales, 1);
  op.fill(amax, 0);
  to.add("fp8_amax", {x}, [=, &op] { op.fp8_amax(x, amax); });
  to.add("fp8_quantize", {x, y}, [=, &op] { op.fp8_quantize(x, scales, amax, y); });
  to.add("fp8_quantize_transpose", {x, y, turned},
         [=, &op] { op.fp8_quantize_transpose(x, scales, amax, y, turned); });
  to.add("fp8_transpose", {y, turned}, [=, &op] { op.fp8_transpose(y, turned); });
}

}  // namespace

DeviceOperands::~DeviceOperands() {
  for (const Matrix& x : made_) memory_.release(x.data, x.bytes());
}

Matrix DeviceOperands::matrix(std::int64_t rows, std::int64_t cols, DType type) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 22;  // elements
  const Matrix x(memory_.allocate(Matrix(nullptr, rows, cols, type).bytes()), rows, cols, type);
  made_.push_back(x);
  const Matrix all = x.reshaped(1, x.elements());
  const std::int64_t first = std::min(kBlock, all.cols);
  std::vector<std::vector<std::byte>> host;
  operators_.upload(make(1, first, type, host).data, all.columns(0, first));
  for (std::int64_t done = first; done < all.cols;) {
    const std::int64_t count = std::min(done, all.cols - done);
    operators_.copy(all.columns(0, count), all.columns(done, count));
    done += count;
  }
  return x;
}

Gemm DeviceOperands::product(const ProductShape& s) {
  Gemm gemm = product_with(
      s, [&](std::int64_t rows, std::int64_t cols, DType type) { return matrix(rows, cols, type); });
  for (const Matrix& scale : {gemm.a_inverse_scale, gemm.b_inverse_scale}) {
    if (scale.data != nullptr) operators_.fill(scale, 1);
  }
  return gemm;
}

std::vector<OperatorCase> operator_cases(Operators& operators, const OperatorShape& shape,
                                         MemorySource* device) {
  Collector collector(operators, device);
  add_norms(collector, operators, shape);
  add_attention(collector, operators, shape);
  add_activations(collector, operators, shape);
  add_vocabulary(collector, operators, shape);
  add_optimizer(collector, operators, shape);
  add_fp8(collector, operators, shape);
  return collector.take();
}

Gemm product_operands(const ProductShape& s, std::vector<std::vector<std::byte>>& memory) {
  const Gemm gemm = product_with(
      s, [&](std::int64_t rows, std::int64_t cols, DType type) { return make(rows, cols, type, memory); });
  for (const Matrix& scale : {gemm.a_inverse_scale, gemm.b_inverse_scale}) {
    if (scale.data != nullptr) *scale.as<float>() = 1;
  }
  return gemm;
}

}  // namespace plumbline
