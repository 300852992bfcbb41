// Checks of an operator's arguments, before anything is written: shapes and types that every backend
// requires.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/operators.hpp"

namespace plumbline {

/// An argument as an error message shows it.
struct Named {
  const char* name;
  const Matrix& matrix;
};

/// Throws Error: "<op>: shapes or types disagree: a 2x3 fp32, b 3x4 bf16; expected <expected>".
[[noreturn]] void throw_disagreement(const char* op, const char* expected,
                                     std::initializer_list<Named> arguments);

inline void require(bool agrees, const char* op, const char* expected,
                    std::initializer_list<Named> arguments) {
  if (!agrees) throw_disagreement(op, expected, arguments);
}

/// Throws Error: "<op>: dropout probability 1.5; expected 0 <= p < 1".
[[noreturn]] void throw_bad_probability(const char* op, double probability);

/// Elements can be dropped with it: not with 1, which 1/(1 − p) could not make up for, nor with NaN.
inline void require_probability(const char* op, double probability) {
  if (!(probability >= 0 && probability < 1)) throw_bad_probability(op, probability);
}

inline bool has_shape(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  return x.rows == rows && x.cols == cols;
}
inline bool has_shape(const Matrix& x, std::int64_t rows, std::int64_t cols, DType type) {
  return has_shape(x, rows, cols) && x.dtype == type;
}
inline bool same_shape(const Matrix& x, const Matrix& y) {
  return has_shape(x, y.rows, y.cols);
}
inline bool alike(const Matrix& x, const Matrix& y) {
  return has_shape(x, y.rows, y.cols, y.dtype);
}
/// One value of `type` for each row of `of`: (1, of.rows).
inline bool is_row(const Matrix& x, const Matrix& of, DType type) {
  return has_shape(x, 1, of.rows, type);
}
/// True for a storage type: not ids, not masks, not quantized.
inline bool is_storage(const Matrix& x) {
  return x.dtype == DType::fp32 || x.dtype == DType::bf16 || x.dtype == DType::fp16;
}

// Requirements of all backends on an operator's arguments; a backend may also lack a type or size.
void require_product(const Gemm& gemm);
/// add_rmsnorm_forward and add_layernorm_forward. `parameters`: w, and b; `statistics`: rstd, and mean.
void require_added_norm(const char* op, const ResidualSum& added, const Matrix& y,
                        std::initializer_list<Matrix> parameters, std::initializer_list<Matrix> statistics);
void require_head_norm(const char* op, const Matrix& x, const Matrix& w, const Matrix& y, const Matrix& rstd);
void require_rope(const char* op, const Matrix& x, const Matrix& cos, const Matrix& sin,
                  std::int64_t head_dim);
void require_row_products(const char* op, const Matrix& a, const Matrix& b, std::int64_t first,
                          std::int64_t columns, const Matrix& sums);
void require_scale_columns(const Matrix& x, const Matrix& squares);
void require_embedding_add(const Matrix& tokens, const Matrix& table, const Matrix& x);
void require_add_multiple(const Matrix& a, const Matrix& b, const Matrix& bias, const Matrix& y);
void require_route(const Router& router, const Matrix& logits, const Matrix& chosen);
void require_arrange(const Router& router, const Matrix& logits, const Matrix& chosen, const Matrix& places,
                     const Matrix& tokens, const Matrix& weights);
void require_route_backward(const Router& router, const Matrix& logits, const Matrix& chosen,
                            const Matrix& places, const Matrix& dweights, const Matrix& dlogits);
/// join_heads and split_heads, whose shared part may be empty, or of fp32.
void require_heads(const char* op, const Matrix& shared, const Matrix& own, std::int64_t heads,
                   const Matrix& whole);
/// join_heads with a shared part.
void require_joined_heads(const Matrix& shared, const Matrix& own, std::int64_t heads, const Matrix& whole);
void require_sigmoid(const char* op, const Matrix& dy, const Matrix& y, const Matrix& dx);
void require_scale_rows(const Matrix& x, const Matrix& factors, const Matrix& y);
void require_combine_rows(const Matrix& x, const Matrix& places, const Matrix& y);
void require_attention_merge(const Matrix& out, const Matrix& lse, const Matrix& part,
                             const Matrix& part_lse);
/// Keys that a query sees.
void require_mask(const char* op, const AttentionShape& shape);
void require_fp8_amax(const Matrix& x, const Matrix& amax);
void require_fp8_scales(const Matrix& amaxes, double largest, int margin, const Matrix& scales);
void require_fp8_quantize(const Matrix& x, const Matrix& scales, const Matrix& amax, const Matrix& y);
void require_fp8_quantize_transpose(const Matrix& x, const Matrix& scales, const Matrix& amax,
                                    const Matrix& y, const Matrix& transposed);
void require_fp8_transpose(const Matrix& x, const Matrix& y);

}  // namespace plumbline
