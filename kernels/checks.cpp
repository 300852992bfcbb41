// Argument errors: their messages, and the checks that all backends share.
#include "kernels/checks.hpp"

#include <fmt/format.h>

#include <string>

#include "core/base/error.hpp"

namespace plumbline {

void throw_disagreement(const char* op, const char* expected, std::initializer_list<Named> arguments) {
  std::string found;
  for (const Named& argument : arguments) {
    const Matrix& x = argument.matrix;
    found += fmt::format("{}{} {}x{} {}", found.empty() ? "" : ", ", argument.name, x.rows, x.cols,
                         name_of(x.dtype));
    if (!x.contiguous()) found += fmt::format(" stride {}", x.stride);
  }
  throw Error(fmt::format("{}: shapes or types disagree: {}; expected {}", op, found, expected));
}

void throw_bad_probability(const char* op, double probability) {
  throw Error(fmt::format("{}: dropout probability {}; expected 0 <= p < 1", op, probability));
}

namespace {

bool is_number(const Matrix& x) {
  return has_shape(x, 1, 1, DType::fp32) && x.data != nullptr;
}

/// A, B, C and the bias of a product whose operands are FP8.
bool fp8_product_agrees(const Gemm& gemm) {
  const Matrix& bias = gemm.bias;
  return is_fp8(gemm.a.dtype) && is_fp8(gemm.b.dtype) &&
         (gemm.a.dtype == DType::fp8_e4m3 || gemm.b.dtype == DType::fp8_e4m3) && !gemm.a_transposed &&
         gemm.b_transposed && gemm.bias_gradient.data == nullptr && is_storage(gemm.c) &&
         is_number(gemm.a_inverse_scale) && is_number(gemm.b_inverse_scale) &&
         (bias.data == nullptr || bias.dtype == gemm.c.dtype ||
          (gemm.c.dtype == DType::fp32 && is_storage(bias)));
}

bool storage_product_agrees(const Gemm& gemm) {
  return is_storage(gemm.a) && gemm.a.dtype == gemm.b.dtype &&
         (gemm.c.dtype == gemm.a.dtype || gemm.c.dtype == DType::fp32) &&
         (gemm.bias.data == nullptr || gemm.bias.dtype == gemm.a.dtype) &&
         gemm.a_inverse_scale.data == nullptr && gemm.b_inverse_scale.data == nullptr;
}

bool bias_gradient_agrees(const Gemm& gemm) {
  const Matrix& gradient = gemm.bias_gradient;
  return gradient.data == nullptr ||
         (gemm.a_transposed && is_storage(gradient) && has_shape(gradient, 1, gemm.c.rows));
}

}  // namespace

void require_product(const Gemm& gemm) {
  const Matrix& a = gemm.a;
  const Matrix& b = gemm.b;
  const Matrix& c = gemm.c;
  const std::int64_t k = gemm.a_transposed ? a.rows : a.cols;
  const bool shapes_agree = (gemm.a_transposed ? a.cols : a.rows) == c.rows &&
                            (gemm.b_transposed ? b.cols : b.rows) == k &&
                            (gemm.b_transposed ? b.rows : b.cols) == c.cols &&
                            (gemm.bias.data == nullptr || has_shape(gemm.bias, 1, c.cols));
  const char* op = gemm.a_transposed   ? "gemm (A transposed)"
                   : gemm.b_transposed ? "gemm (B transposed)"
                                       : "gemm";
  if (is_fp8(a.dtype) || is_fp8(b.dtype)) {
    return require(
        shapes_agree && fp8_product_agrees(gemm), op,
        "A (m,k), B (n,k) transposed, one of them or both fp8_e4m3, the other fp8_e5m2, C (m,n) "
        "floating point, bias (1,n) of C's type or empty, no bias gradient, inverse scales (1,1) fp32",
        {{"A", a},
         {"B", b},
         {"C", c},
         {"bias", gemm.bias},
         {"A's inverse scale", gemm.a_inverse_scale},
         {"B's", gemm.b_inverse_scale}});
  }
  require(shapes_agree && storage_product_agrees(gemm), op,
          "op(A) (m,k), op(B) (k,n) of one floating point type, C (m,n) of that type or fp32, bias (1,n) or "
          "empty, no scales",
          {{"A", a}, {"B", b}, {"C", c}, {"bias", gemm.bias}});
  require(bias_gradient_agrees(gemm), op,
          "a bias gradient (1,m) of a floating point type where A is transposed, or none",
          {{"A", a}, {"C", c}, {"bias gradient", gemm.bias_gradient}});
}

void require_added_norm(const char* op, const ResidualSum& added, const Matrix& y,
                        std::initializer_list<Matrix> parameters, std::initializer_list<Matrix> statistics) {
  require_add_multiple(added.a, added.b, added.bias, added.sum);
  require(alike(added.sum, y), op, "sum, y (T,h) of one type", {{"sum", added.sum}, {"y", y}});
  for (const Matrix& w : parameters)
    require(has_shape(w, 1, y.cols, y.dtype), op, "w, b (1,h) of y's type", {{"y", y}, {"w or b", w}});
  for (const Matrix& each : statistics)
    require(is_row(each, y, DType::fp32), op, "mean, rstd (1,T) fp32", {{"y", y}, {"mean or rstd", each}});
}

void require_head_norm(const char* op, const Matrix& x, const Matrix& w, const Matrix& y,
                       const Matrix& rstd) {
  require(is_storage(x) && alike(x, y) && w.cols > 0 && has_shape(w, 1, w.cols, x.dtype) &&
              has_shape(rstd, x.rows, x.cols / w.cols, DType::fp32) && rstd.cols * w.cols == x.cols,
          op, "x, y (T, heads*head_dim), w (1, head_dim) of one floating point type, rstd (T, heads) fp32",
          {{"x", x}, {"w", w}, {"y", y}, {"rstd", rstd}});
}

void require_row_products(const char* op, const Matrix& a, const Matrix& b, std::int64_t first,
                          std::int64_t columns, const Matrix& sums) {
  require(is_storage(a) && is_storage(b) && a.rows == 1 && same_shape(a, b) && first >= 0 && columns > 0 &&
              has_shape(sums, 2, sums.cols, DType::fp32) && sums.contiguous(),
          op, "two (1, n) floating point, first not negative, columns positive, sums (2, rows) fp32",
          {{"a", a}, {"b", b}, {"sums", sums}});
}

void require_scale_columns(const Matrix& x, const Matrix& squares) {
  require(is_storage(x) && has_shape(squares, 1, x.cols, DType::fp32), "scale_columns",
          "x (T, n) floating point, squares (1, n) fp32", {{"x", x}, {"squares", squares}});
}

void require_embedding_add(const Matrix& tokens, const Matrix& table, const Matrix& x) {
  require(is_storage(x) && has_shape(tokens, 1, x.rows, DType::int32) && table.cols == x.cols &&
              table.dtype == x.dtype,
          "embedding_add", "tokens (1,T) int32, table (rows,h), x (T,h) of one type",
          {{"tokens", tokens}, {"table", table}, {"x", x}});
}

void require_add_multiple(const Matrix& a, const Matrix& b, const Matrix& bias, const Matrix& y) {
  require(is_storage(y) && alike(a, y) && alike(b, y) &&
              (bias.data == nullptr || has_shape(bias, 1, y.cols, y.dtype)),
          "add_multiple", "a, b, y (T,h), bias (1,h) or empty, of one floating point type",
          {{"a", a}, {"b", b}, {"bias", bias}, {"y", y}});
}

void require_mask(const char* op, const AttentionShape& shape) {
  const bool fits = shape.window >= 0 && shape.prefix >= 0 && shape.prefix <= shape.seq &&
                    (shape.prefix == 0 || (shape.window == 0 && shape.alibi.heads == 0));
  const bool part = shape.key_start != 0 || shape.key_count != 0;
  const bool given = shape.past >= 0 && shape.key_start >= 0 && shape.key_count >= 0 && shape.keys() > 0 &&
                     shape.key_start + shape.keys() <= shape.past + shape.seq && (!part || shape.prefix == 0);
  if (!given) {
    throw Error(
        fmt::format("{}: {} keys from {} on for {} queries from {} on, prefix {}; expected keys up to the "
                    "last query's at most, and no "
                    "prefix with a part of them",
                    op, shape.keys(), shape.key_start, shape.seq, shape.past, shape.prefix));
  }
  if (fits) return;
  throw Error(
      fmt::format("{}: window {}, prefix {} of {} tokens, {} heads with ALiBi; expected numbers that are not "
                  "negative, a prefix within the sequence, and none with a window or ALiBi",
                  op, shape.window, shape.prefix, shape.seq, shape.alibi.heads));
}

void require_attention_merge(const Matrix& out, const Matrix& lse, const Matrix& part,
                             const Matrix& part_lse) {
  require(is_storage(out) && alike(part, out) && lse.rows > 0 && out.cols % lse.rows == 0 &&
              lse.cols == out.rows && lse.dtype == DType::fp32 && alike(part_lse, lse),
          "attention_merge", "out, part (T, heads*head_dim) of one type, lse, part_lse (heads, T) fp32",
          {{"out", out}, {"lse", lse}, {"part", part}, {"part_lse", part_lse}});
}

void require_rope(const char* op, const Matrix& x, const Matrix& cos, const Matrix& sin,
                  std::int64_t head_dim) {
  require(is_storage(x) && head_dim > 0 && x.cols % head_dim == 0 && cos.rows > 0 &&
              2 * cos.cols <= head_dim && cos.dtype == DType::fp32 && alike(cos, sin),
          op, "x (T, heads*head_dim) floating point, cos, sin (seq, at most head_dim/2) fp32",
          {{"x", x}, {"cos", cos}, {"sin", sin}});
}

void require_fp8_amax(const Matrix& x, const Matrix& amax) {
  require(is_storage(x) && is_number(amax), "fp8_amax", "x floating point, amax (1,1) fp32",
          {{"x", x}, {"amax", amax}});
}

void require_fp8_scales(const Matrix& amaxes, double largest, int margin, const Matrix& scales) {
  require(amaxes.rows > 0 && amaxes.dtype == DType::fp32 && has_shape(scales, 2, amaxes.cols, DType::fp32),
          "fp8_scales", "amaxes (H,n), scales (2,n) fp32", {{"amaxes", amaxes}, {"scales", scales}});
  if (!(largest > 0) || margin < 0) {
    throw Error(fmt::format("fp8_scales: largest {}, margin {}; expected one above 0, the other not negative",
                            largest, margin));
  }
}

void require_fp8_quantize(const Matrix& x, const Matrix& scales, const Matrix& amax, const Matrix& y) {
  require(is_storage(x) && has_shape(scales, 2, 1, DType::fp32) &&
              (amax.data == nullptr || is_number(amax)) && same_shape(x, y) && is_fp8(y.dtype) &&
              y.contiguous(),
          "fp8_quantize",
          "x floating point, scales (2,1) fp32, amax (1,1) fp32 or empty, y of x's shape, 8-bit, contiguous",
          {{"x", x}, {"scales", scales}, {"amax", amax}, {"y", y}});
}

void require_fp8_quantize_transpose(const Matrix& x, const Matrix& scales, const Matrix& amax,
                                    const Matrix& y, const Matrix& transposed) {
  const bool whole = y.data == nullptr || (same_shape(x, y) && y.dtype == transposed.dtype && y.contiguous());
  require(is_storage(x) && has_shape(scales, 2, 1, DType::fp32) &&
              (amax.data == nullptr || is_number(amax)) && whole && is_fp8(transposed.dtype) &&
              transposed.rows == x.cols && transposed.cols == x.rows && transposed.contiguous(),
          "fp8_quantize_transpose",
          "x (r,c) floating point, scales (2,1) fp32, amax (1,1) fp32 or empty, y (r,c) or empty and "
          "transposed (c,r) "
          "contiguous, of one 8-bit type",
          {{"x", x}, {"scales", scales}, {"amax", amax}, {"y", y}, {"transposed", transposed}});
}

void require_fp8_transpose(const Matrix& x, const Matrix& y) {
  require(is_fp8(x.dtype) && has_shape(y, x.cols, x.rows, x.dtype) && x.contiguous() && y.contiguous(),
          "fp8_transpose", "x (r,c), y (c,r) contiguous, of one 8-bit type", {{"x", x}, {"y", y}});
}

}  // namespace plumbline
