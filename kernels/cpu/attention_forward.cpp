// Forward of causal attention; attention.hpp says how it is split.
#include <cmath>
#include <cstring>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/dropout_lanes.hpp"

namespace plumbline::cpu {
namespace {

/// scores → exp(scale·score - row maximum), zero above the diagonal; sums (rows) and lse (rows) of each row.
/// Row r sees the first `seen` + r columns.
template <class T>
PLUMBLINE_MULTIVERSION void softmax_rows(float* scores, std::int64_t rows, std::int64_t cols,
                                         std::int64_t seen, float scale, float* sums, float* lse) {
  const Lanes lowest = splat(-__builtin_inff());
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = scores + r * cols;
    T* out = reinterpret_cast<T*>(scores) + r * cols;
    const std::int64_t valid = seen + r;
    Lanes best = lowest;
    for_lanes(valid, cols,
              [&] PLUMBLINE_LANES { best = maximum(keep(load(in + i, part), lowest, part), best); });
    const float top = largest(best) * scale;
    Lanes total{};
    for_lanes(valid, cols, [&] PLUMBLINE_LANES {
      const Lanes p = keep(exp(load(in + i, part) * scale - top), Lanes{}, part);
      total += p;
      store(out + i, p, part);
    });
    std::memset(out + valid, 0, static_cast<std::size_t>(cols - valid) * sizeof(T));
    sums[r] = sum(total);
    lse[r] = top + std::log(sums[r]);
  }
}

/// Exponentials that are dropped become 0. Those that stay are multiplied with 1/(1 - probability) later, as
/// part of what their row's result is divided by.
template <class T>
PLUMBLINE_MULTIVERSION void drop_rows(const DrawnRows& draws, T* exponentials, std::int64_t rows,
                                      std::int64_t cols, std::int64_t seen, float* sums) {
  const float kept = 1 / dropout_scale(draws.dropout.probability);
  for (std::int64_t r = 0; r < rows; ++r) {
    T* p = exponentials + r * cols;
    over_masked_row(draws, r, seen + r, [&] PLUMBLINE_MASKED_LANES {
      store(p + i, masked(load(p + i, part), mask, part), part);
    });
    sums[r] *= kept;
  }
}

/// out (storage type, rows may have gaps) = in (rows × cols fp32) ÷ sums of the row.
template <class T>
PLUMBLINE_MULTIVERSION void divide_rows(const float* in, const float* sums, Matrix out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const float factor = 1.0F / sums[r];
    T* to = row_of<T>(out, r);
    for_lanes(out.cols,
              [&] PLUMBLINE_LANES { store(to + i, load(in + r * out.cols + i, part) * factor, part); });
  }
}

}  // namespace

std::int64_t CpuOperators::attention_scratch(const AttentionShape& shape, DType /*type*/) const {
  const std::int64_t rows = block_rows(shape);
  return 2 * rows * shape.seq + 4 * shape.seq * shape.head_dim + 3 * rows * shape.head_dim + rows;
}

void CpuOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                     Matrix lse, Matrix scratch) {
  require_probability("attention_forward", shape.dropout.probability);
  require(agrees(shape, q, k, v, out, lse, scratch, attention_scratch(shape, q.dtype)), "attention_forward",
          kAttentionShapes, {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"scratch", scratch}});
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const AttentionScratch parts(shape, scratch);
  const Matrix keys(parts.keys, shape.seq, d, q.dtype);
  const Matrix values(parts.values, shape.seq, d, q.dtype);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    const HeadSlice kv{sequence * shape.seq, kv_head * d, d};
    copy(kv.rows(k, 0, shape.seq), keys);
    copy(kv.rows(v, 0, shape.seq), values);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const HeadSlice slice{sequence * shape.seq, head * d, d};
      float* row_lse = row_of<float>(lse, sequence * shape.heads + head);
      for (std::int64_t first = 0; first < shape.seq; first += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, shape.seq - first);
        const std::int64_t cols = first + rows;
        const Matrix queries(parts.queries, rows, d, q.dtype);
        const Matrix scores(parts.scores, rows, cols, DType::fp32);
        const Matrix probabilities(parts.scores, rows, cols, q.dtype);
        const Matrix result(parts.result, rows, d, DType::fp32);
        copy(slice.rows(q, first, rows), queries);
        gemm({.a = queries, .b = keys.row_range(0, cols), .c = scores, .b_transposed = true, .bias = {}});
        with_type("attention_forward", q.dtype, [&](auto type) {
          using T = decltype(type);
          softmax_rows<T>(parts.scores, rows, cols, first + 1, scale, parts.per_row, row_lse + first);
          if (shape.dropout.probability > 0) {
            drop_rows<T>(draws_of(shape, sequence, head, first), probabilities.as<T>(), rows, cols, first + 1,
                         parts.per_row);
          }
        });
        gemm({.a = probabilities, .b = values.row_range(0, cols), .c = result, .bias = {}});
        with_type("attention_forward", q.dtype, [&](auto type) {
          divide_rows<decltype(type)>(parts.result, parts.per_row, slice.rows(out, first, rows));
        });
      }
    }
  }
}

}  // namespace plumbline::cpu
