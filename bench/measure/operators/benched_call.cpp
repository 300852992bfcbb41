#include "bench/measure/operators/benched_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

/// The size that is the operator's width, and the columns of its largest matrix over that.
struct WidthOf {
  std::string_view name;
  std::int64_t OperatorShape::*size;
  std::int64_t factor;
};
constexpr auto kHidden = &OperatorShape::hidden;
constexpr auto kFfn = &OperatorShape::ffn;
constexpr auto kVocab = &OperatorShape::vocab;
constexpr auto kParameters = &OperatorShape::parameters;
constexpr std::array<WidthOf, 20> kWidths = {{{"rmsnorm_forward", kHidden, 1},
                                              {"rmsnorm_backward", kHidden, 1},
                                              {"layernorm_forward", kHidden, 1},
                                              {"layernorm_backward", kHidden, 1},
                                              {"add", kHidden, 1},
                                              {"add_rmsnorm_forward", kHidden, 1},
                                              {"add_layernorm_forward", kHidden, 1},
                                              {"copy", kHidden, 1},
                                              {"bias_backward", kHidden, 1},
                                              {"swiglu_forward", kFfn, 2},
                                              {"swiglu_backward", kFfn, 2},
                                              {"gelu_forward", kFfn, 2},
                                              {"gelu_backward", kFfn, 2},
                                              {"cross_entropy_max", kVocab, 1},
                                              {"cross_entropy_sums", kVocab, 1},
                                              {"cross_entropy_gradient", kVocab, 1},
                                              {"adam", kParameters, 1},
                                              {"squared_norm", kParameters, 1},
                                              {"fill", kParameters, 1},
                                              {"dropout_add", kHidden, 1}}};

double total_bytes(std::initializer_list<Matrix> operands) {
  double bytes = 0;
  for (const Matrix& each : operands) bytes += static_cast<double>(each.bytes().value);
  return bytes;
}

using Operands = std::shared_ptr<DeviceOperands>;

PreparedOperator prepare_gemm(const BenchedShape& s, Operators& operators, const Operands& operands) {
  ProductShape product{s.m, s.n, s.k, s.type, s.type, false, true, false};  // y = x·wᵀ
  if (s.pass == BenchedPass::input_gradient) product.b_transposed = false;  // dx = dy·w
  if (s.pass == BenchedPass::weight_gradient) {                             // dw += dyᵀ·x
    product.a_transposed = product.accumulate = true;
    product.b_transposed = false;
    product.c_type = DType::fp32;
  }
  const Gemm gemm = operands->product(product);
  double bytes = total_bytes({gemm.a, gemm.b, gemm.c});
  if (gemm.accumulate) bytes += total_bytes({gemm.c});
  return {[operands, gemm, &operators] { operators.gemm(gemm); }, bytes};
}

PreparedOperator prepare_attention(const BenchedShape& s, Operators& operators, const Operands& operands) {
  AttentionShape shape{s.batch, s.sequence, s.heads, s.kv_heads, s.head};
  shape.window = s.window;
  const std::int64_t tokens = s.batch * s.sequence;
  const auto heads = [&](std::int64_t count) { return operands->matrix(tokens, count * s.head, s.type); };
  const Matrix q = heads(s.heads), k = heads(s.kv_heads), v = heads(s.kv_heads), out = heads(s.heads);
  const Matrix lse = operands->matrix(s.batch * s.heads, s.sequence, DType::fp32);
  const Matrix scratch = operands->matrix(1, operators.attention_scratch(shape, s.type), DType::fp32);
  const auto forward = [=, &operators] { operators.attention_forward(shape, q, k, v, out, lse, scratch); };
  if (s.pass == BenchedPass::forward) {
    return {[operands, forward] { forward(); }, total_bytes({q, k, v, out})};
  }
  const Matrix dout = heads(s.heads), dq = heads(s.heads), dk = heads(s.kv_heads), dv = heads(s.kv_heads);
  forward();
  return {[=, &operators] {
            static_cast<void>(operands);
            operators.attention_backward(shape, q, k, v, out, lse, dout, dq, dk, dv, scratch);
          },
          total_bytes({q, k, v, out, dout, dq, dk, dv})};
}

/// Choices dealt to the experts in turn: token of every row of this rank, and row of every choice.
struct Dealt {
  std::vector<std::int32_t> tokens, places;
};
Dealt deal(const BenchedShape& s) {
  const std::int64_t rows = s.rows_per_expert();
  Dealt dealt;
  dealt.tokens.resize(static_cast<std::size_t>(rows * s.local_experts()));
  dealt.places.resize(static_cast<std::size_t>(s.tokens * s.choices), -1);
  for (std::int64_t choice = 0; choice < s.tokens * s.choices; ++choice) {
    const std::int64_t expert = choice % s.experts, row = choice / s.experts;
    if (expert >= s.local_experts() || row >= rows) continue;
    const std::int64_t place = expert * rows + row;
    dealt.places[static_cast<std::size_t>(choice)] = static_cast<std::int32_t>(place);
    dealt.tokens[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(choice / s.choices);
  }
  return dealt;
}

PreparedOperator prepare_experts(const BenchedShape& s, Operators& operators, const Operands& operands) {
  const std::int64_t each = s.rows_per_expert(), rows = each * s.local_experts(), ffn = s.ffn / s.tp;
  const auto numbers = [&](const std::vector<std::int32_t>& values) {
    const Matrix x = operands->matrix(1, static_cast<std::int64_t>(values.size()), DType::int32);
    operators.upload(values.data(), x);
    operators.synchronize();
    return x;
  };
  const Dealt dealt = deal(s);
  const Matrix tokens = numbers(dealt.tokens), places = numbers(dealt.places);
  const auto matrix = [&](std::int64_t count, std::int64_t width) {
    return operands->matrix(count, width, s.type);
  };
  const Matrix x = matrix(s.tokens, s.hidden), gathered = matrix(rows, s.hidden);
  const Matrix gate_up = matrix(rows, 2 * ffn), act = matrix(rows, ffn), out = matrix(rows, s.hidden);
  const Matrix weights = operands->matrix(1, rows, DType::fp32), y = matrix(s.tokens, s.hidden);
  const Matrix fc1 = matrix(s.local_experts() * 2 * ffn, s.hidden);
  const Matrix fc2 = matrix(s.local_experts() * s.hidden, ffn);
  const auto products = [=, &operators](const Matrix& in, const Matrix& w, const Matrix& to) {
    for (std::int64_t expert = 0; expert < s.local_experts(); ++expert) {
      Gemm gemm{.a = in.row_range(expert * each, each),
                .b = w.row_range(expert * to.cols, to.cols),
                .c = to.row_range(expert * each, each),
                .b_transposed = true};
      gemm.rows_vary = true;
      operators.gemm(gemm);
    }
  };
  return {[=, &operators] {
            static_cast<void>(operands);
            operators.embedding_forward(tokens, x, 0, gathered);
            products(gathered, fc1, gate_up);
            operators.swiglu_forward(gate_up, act);
            operators.scale_rows(act, weights, act);
            products(act, fc2, out);
            operators.combine_rows(out, places, false, y);
          },
          total_bytes({x, fc1, fc2, y, gathered, gathered, gate_up, gate_up, act, act, act, act, out, out})};
}

PreparedOperator prepare_memory_bound(const BenchedShape& s, Operators& operators, MemorySource& memory) {
  const auto* const found =
      std::find_if(kWidths.begin(), kWidths.end(), [&](const WidthOf& each) { return each.name == s.name; });
  if (found == kWidths.end()) {
    throw InputError(fmt::format("name: found {}, expected one of {}", printable(s.name),
                                 fmt::join(memory_bound_operators(), ", ")));
  }
  OperatorShape sizes;
  sizes.type = s.type;
  sizes.heads = sizes.kv_heads = 1;
  sizes.hidden = sizes.head_dim = sizes.ffn = sizes.vocab = sizes.parameters = 64;  // of all others
  sizes.seq = 1;
  sizes.batch = found->size == kParameters ? 1 : s.tokens;
  const std::int64_t width = found->size == kParameters ? s.tokens * s.width : s.width;
  sizes.*found->size = std::max<std::int64_t>(1, width / found->factor);
  for (OperatorCase& each : operator_cases(operators, sizes, &memory)) {
    if (each.name == s.name) return {std::move(each.run), static_cast<double>(each.bytes.value)};
  }
  throw Error(fmt::format("no operator {}", s.name));
}

}  // namespace

PreparedOperator prepare(const BenchedShape& shape, Operators& operators, MemorySource& memory) {
  if (shape.kind == BenchedOperator::memory_bound) return prepare_memory_bound(shape, operators, memory);
  const auto operands = std::make_shared<DeviceOperands>(operators, memory);
  switch (shape.kind) {
    case BenchedOperator::attention:
      return prepare_attention(shape, operators, operands);
    case BenchedOperator::experts:
      return prepare_experts(shape, operators, operands);
    default:
      return prepare_gemm(shape, operators, operands);
  }
}

}  // namespace plumbline
