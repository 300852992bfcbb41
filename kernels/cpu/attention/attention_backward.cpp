// Backward of causal attention; attention.hpp describes the blocks.

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/dropout_lanes.hpp"
#include "kernels/score_scale.hpp"

namespace plumbline::cpu {
namespace {

/// scores → probabilities exp(scale·score - lse), zero where nothing is seen.
template <class T>
PLUMBLINE_MULTIVERSION void probability_rows(float* scores, std::int64_t rows, std::int64_t cols,
                                             const SeenColumns& seen, float scale, const float* lse) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = seen.from(r);
    const float* in = scores + r * cols + from;
    T* out = reinterpret_cast<T*>(scores) + r * cols;
    zero_before(out, from);
    for_lanes(seen.to(r) - from, cols - from,
              [&] PLUMBLINE_LANES { store(out + from + i, exp(load(in + i, part) * scale - lse[r]), part); });
    zero_behind(out, seen.to(r), cols);
  }
}

/// Gradients of the probabilities → of the unscaled scores: p·(dp - Σ dout·out)·scale.
template <class T>
PLUMBLINE_MULTIVERSION void score_gradient_rows(float* gradients, const T* probabilities, std::int64_t rows,
                                                std::int64_t cols, const SeenColumns& seen, float scale,
                                                const float* row_sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t from = seen.from(r);
    const float* in = gradients + r * cols + from;
    const T* p = probabilities + r * cols + from;
    T* out = reinterpret_cast<T*>(gradients) + r * cols;
    zero_before(out, from);
    for_lanes(seen.to(r) - from, cols - from, [&] PLUMBLINE_LANES {
      store(out + from + i, load(p + i, part) * (load(in + i, part) - row_sums[r]) * scale, part);
    });
    zero_behind(out, seen.to(r), cols);
  }
}

/// The same from the gradients of dropped probabilities: p·(dp·mask/(1 - probability) - Σ
/// dout·out)·scale. Afterwards the probabilities themselves are dropped, for the gradient of the values;
/// their summation applies 1/(1 - probability).
template <class T>
PLUMBLINE_MULTIVERSION void dropped_gradient_rows(const DrawnRows& draws, float* gradients, T* probabilities,
                                                  std::int64_t rows, std::int64_t cols,
                                                  const SeenColumns& seen, float scale,
                                                  const float* row_sums) {
  const float kept = dropout_scale(draws.dropout.probability);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = gradients + r * cols;
    T* p = probabilities + r * cols;
    T* out = reinterpret_cast<T*>(gradients) + r * cols;
    zero_before(out, seen.from(r));
    over_masked_row(draws, r, seen.from(r), seen.to(r), [&] PLUMBLINE_MASKED_LANES {
      const Lanes probability = load(p + i, part);
      const Lanes gradient = masked(load(in + i, part) * kept, mask, part);
      store(out + i, probability * (gradient - row_sums[r]) * scale, part);
      store(p + i, masked(probability, mask, part), part);
    });
    zero_behind(out, seen.to(r), cols);
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void dot_rows(Matrix a, Matrix b, float* dots) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* left = row_of<T>(a, r);
    const T* right = row_of<T>(b, r);
    LaneSum total;
    for_lanes(a.cols, [&] PLUMBLINE_LANES { total += load(left + i, part) * load(right + i, part); });
    dots[r] = sum(total);
  }
}

}  // namespace

void CpuOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                      Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                      Matrix scratch) {
  require_scratch("attention_backward", scratch, attention_scratch(shape, q.dtype));
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const float scale = score_scale(d);
  const bool dropping = shape.dropout.probability > 0;
  const AttentionScratch parts(shape, scratch);
  const Matrix keys(parts.keys, shape.keys(), d, q.dtype);
  const std::int64_t value_dim = shape.values();
  const Matrix values(parts.values, shape.keys(), value_dim, q.dtype);
  const Matrix key_gradients(parts.key_gradients, shape.keys(), d, DType::fp32);
  const Matrix value_gradients(parts.value_gradients, shape.keys(), value_dim, DType::fp32);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    const HeadSlice kv{sequence * shape.keys(), kv_head * d, d};
    copy(kv.rows(k, 0, shape.keys()), keys);
    const HeadSlice kv_values{sequence * shape.keys(), kv_head * value_dim, value_dim};
    copy(kv_values.rows(v, 0, shape.keys()), values);
    fill(key_gradients, 0);
    fill(value_gradients, 0);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const HeadSlice slice{sequence * shape.seq, head * d, d};
      const HeadSlice results{sequence * shape.seq, head * value_dim, value_dim};
      const float* row_lse = row_of<float>(lse, sequence * shape.heads + head);
      const float slope = static_cast<float>(slope_of(shape, head)) / scale;
      for (std::int64_t first = 0; first < shape.seq; first += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, shape.seq - first);
        const std::int64_t position = shape.past - shape.key_start + first;
        const std::int64_t begin = first_key(shape, position);
        const std::int64_t cols = std::min(std::max(position + rows, shape.prefix), shape.keys()) - begin;
        if (cols <= 0) {  // all keys are before the window
          fill(slice.rows(dq, first, rows), 0);
          continue;
        }
        const SeenColumns seen{position - begin, shape.window, shape.prefix, cols};
        const Matrix queries(parts.queries, rows, d, q.dtype);
        const Matrix output_gradients(parts.output_gradients, rows, value_dim, q.dtype);
        const Matrix scores(parts.scores, rows, cols, DType::fp32);
        const Matrix probabilities(parts.scores, rows, cols, q.dtype);
        const Matrix dprobabilities(parts.score_gradients, rows, cols, DType::fp32);
        const Matrix dscores(parts.score_gradients, rows, cols, q.dtype);
        const Matrix result(parts.result, rows, d, q.dtype);
        const Matrix block_keys = keys.row_range(begin, cols);
        const Matrix block_values = values.row_range(begin, cols);
        copy(slice.rows(q, first, rows), queries);
        copy(results.rows(dout, first, rows), output_gradients);
        gemm({.a = queries, .b = block_keys, .c = scores, .b_transposed = true, .bias = {}});
        subtract_distances(parts.scores, rows, cols, seen, slope);
        gemm({.a = output_gradients,
              .b = block_values,
              .c = dprobabilities,
              .b_transposed = true,
              .bias = {}});
        with_type("attention_backward", q.dtype, [&](auto type) {
          using T = decltype(type);
          dot_rows<T>(output_gradients, results.rows(out, first, rows), parts.per_row);
          probability_rows<T>(parts.scores, rows, cols, seen, scale, row_lse + first);
          if (dropping) {
            dropped_gradient_rows<T>(draws_of(shape, sequence, head, first), parts.score_gradients,
                                     probabilities.as<T>(), rows, cols, seen, scale, parts.per_row);
          } else {
            score_gradient_rows<T>(parts.score_gradients, probabilities.as<T>(), rows, cols, seen, scale,
                                   parts.per_row);
          }
        });
        gemm({.a = probabilities,
              .b = output_gradients,
              .c = value_gradients.row_range(begin, cols),
              .a_transposed = true,
              .accumulate = true,
              .bias = {}});
        gemm({.a = dscores,
              .b = queries,
              .c = key_gradients.row_range(begin, cols),
              .a_transposed = true,
              .accumulate = true,
              .bias = {}});
        gemm({.a = dscores, .b = block_keys, .c = result, .bias = {}});
        copy(result, slice.rows(dq, first, rows));
      }
    }
    copy(key_gradients, kv.rows(dk, 0, shape.keys()));
    if (dropping) this->scale(value_gradients, 1 / (1 - shape.dropout.probability));
    copy(value_gradients, kv_values.rows(dv, 0, shape.keys()));
  }
}

}  // namespace plumbline::cpu
