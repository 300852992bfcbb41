// Forward of causal attention; attention.hpp describes the blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/dropout_lanes.hpp"
#include "kernels/score_scale.hpp"

namespace plumbline::cpu {
namespace {

/// scores → exp(scale·score - row maximum), zero where nothing is seen; sums (rows) and lse (rows) of each
/// row.
template <class T>
PLUMBLINE_MULTIVERSION void softmax_rows(float* scores, std::int64_t rows, std::int64_t cols,
                                         const SeenColumns& seen, float scale, float* sums, float* lse) {
  const Lanes lowest = splat(-__builtin_inff());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = seen.from(r);
    const std::int64_t to = seen.to(r);
    const float* in = scores + r * cols + from;
    T* out = reinterpret_cast<T*>(scores) + r * cols;
    LaneMaximum best;
    for_lanes(to - from, cols - from,
              [&] PLUMBLINE_LANES { best.take(keep(load(in + i, part), lowest, part)); });
    const float top = largest(best) * scale;
    LaneSum total;
    zero_before(out, from);
    for_lanes(to - from, cols - from, [&] PLUMBLINE_LANES {
      const Lanes p = keep(exp(load(in + i, part) * scale - top), Lanes{}, part);
      total += p;
      store(out + from + i, p, part);
    });
    zero_behind(out, to, cols);
    sums[r] = sum(total);
    lse[r] = top + std::log(sums[r]);
  }
}

/// Dropped exponentials become 0. The kept ones are multiplied with 1/(1 - probability) later, as part of
/// their row's divisor.
template <class T>
PLUMBLINE_MULTIVERSION void drop_rows(const DrawnRows& draws, T* exponentials, std::int64_t rows,
                                      std::int64_t cols, const SeenColumns& seen, float* sums) {
  const float kept = 1 / dropout_scale(draws.dropout.probability);
  for (std::int64_t r = 0; r < rows; ++r) {
    T* p = exponentials + r * cols;
    over_masked_row(draws, r, seen.from(r), seen.to(r), [&] PLUMBLINE_MASKED_LANES {
      store(p + i, masked(load(p + i, part), mask, part), part);
    });
    sums[r] *= kept;
  }
}

/// out (storage type, rows may have gaps) = in (rows × cols fp32) ÷ sums of the row.
template <class T>
PLUMBLINE_MULTIVERSION void divide_rows(const float* in, const float* sums, Matrix out) {
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const float factor = sums[r] > 0 ? 1.0F / sums[r] : 0;  // of a row that sees no key
    T* to = row_of<T>(out, r);
    for_lanes(out.cols,
              [&] PLUMBLINE_LANES { store(to + i, load(in + r * out.cols + i, part) * factor, part); });
  }
}

PLUMBLINE_MULTIVERSION void subtract_from_rows(float* scores, std::int64_t rows, std::int64_t cols,
                                               const SeenColumns& seen, float slope) {
  const Lanes index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * cols;
    const std::int64_t own = seen.diagonal + r;  // where the row's own key is, or would be
    for_lanes(seen.to(r), cols, [&] PLUMBLINE_LANES {
      const Lanes distance = splat(static_cast<float>(own - i)) - index;
      store(row + i, load(row + i, part) - slope * distance, part);
    });
  }
}

}  // namespace

void subtract_distances(float* scores, std::int64_t rows, std::int64_t cols, const SeenColumns& seen,
                        float slope) {
  if (slope != 0) subtract_from_rows(scores, rows, cols, seen, slope);
}

std::int64_t CpuOperators::attention_scratch(const AttentionShape& shape, DType /*type*/) const {
  const std::int64_t rows = block_rows(shape);
  const std::int64_t d = shape.head_dim;
  const std::int64_t values = shape.values();
  return 2 * rows * shape.keys() + 2 * shape.keys() * (d + values) +
         rows * (d + values + std::max(d, values)) + rows;
}

void CpuOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                     Matrix lse, Matrix scratch) {
  require_scratch("attention_forward", scratch, attention_scratch(shape, q.dtype));
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const float scale = score_scale(d);
  const AttentionScratch parts(shape, scratch);
  if (shape.seq == 1 && shape.dropout.probability == 0)
    return attend_single_queries(shape, q, k, v, out, lse, parts);
  const Matrix keys(parts.keys, shape.keys(), d, q.dtype);
  const std::int64_t value_dim = shape.values();
  const Matrix values(parts.values, shape.keys(), value_dim, q.dtype);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    const HeadSlice kv{sequence * shape.keys(), kv_head * d, d};
    copy(kv.rows(k, 0, shape.keys()), keys);
    const HeadSlice kv_values{sequence * shape.keys(), kv_head * value_dim, value_dim};
    copy(kv_values.rows(v, 0, shape.keys()), values);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const HeadSlice slice{sequence * shape.seq, head * d, d};
      const HeadSlice results{sequence * shape.seq, head * value_dim, value_dim};
      float* row_lse = row_of<float>(lse, sequence * shape.heads + head);
      const float slope = static_cast<float>(slope_of(shape, head)) / scale;
      for (std::int64_t first = 0; first < shape.seq; first += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, shape.seq - first);
        const std::int64_t position = shape.past - shape.key_start + first;
        const std::int64_t begin = first_key(shape, position);
        const std::int64_t cols = std::min(std::max(position + rows, shape.prefix), shape.keys()) - begin;
        if (cols <= 0) {  // all keys are before the window
          fill(results.rows(out, first, rows), 0);
          std::fill_n(row_lse + first, rows, -std::numeric_limits<float>::infinity());
          continue;
        }
        const SeenColumns seen{position - begin, shape.window, shape.prefix, cols};
        const Matrix queries(parts.queries, rows, d, q.dtype);
        const Matrix scores(parts.scores, rows, cols, DType::fp32);
        const Matrix probabilities(parts.scores, rows, cols, q.dtype);
        const Matrix result(parts.result, rows, value_dim, DType::fp32);
        copy(slice.rows(q, first, rows), queries);
        gemm({.a = queries, .b = keys.row_range(begin, cols), .c = scores, .b_transposed = true, .bias = {}});
        subtract_distances(parts.scores, rows, cols, seen, slope);
        with_type("attention_forward", q.dtype, [&](auto type) {
          using T = decltype(type);
          softmax_rows<T>(parts.scores, rows, cols, seen, scale, parts.per_row, row_lse + first);
          if (shape.dropout.probability > 0) {
            drop_rows<T>(draws_of(shape, sequence, head, first), probabilities.as<T>(), rows, cols, seen,
                         parts.per_row);
          }
        });
        gemm({.a = probabilities, .b = values.row_range(begin, cols), .c = result, .bias = {}});
        with_type("attention_forward", q.dtype, [&](auto type) {
          divide_rows<decltype(type)>(parts.result, parts.per_row, results.rows(out, first, rows));
        });
      }
    }
  }
}

}  // namespace plumbline::cpu
