// Causal attention in blocks of query rows; forward keeps only the log-sum-exp of each row of scores,
// backward computes the scores again from it (Dao et al. 2022, arXiv:2205.14135, without the split over keys:
// a block of rows sees all its keys at once).
//
// For every query head and block of B = min(128, seq) query rows, scores are computed up to the block's last
// row, so the products above the diagonal blocks are never done. Head slices are first copied without gaps,
// since oneDNN's fast kernels want that. Key and value gradients of the query heads that share a key/value
// head are summed in fp32.
//
//   attention_scratch(shape, type) = 2·B·seq + 4·seq·d + 3·B·d + B fp32 elements, whatever the type:
//     B·seq  scores, then probabilities      B·seq  gradients of the scores
//     seq·d  each: keys, values, and their gradients
//     B·d    each: queries, output gradients, and the block's result
//     B      one number per row: sum of exponentials, or Σ dout·out
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

constexpr std::int64_t kBlockRows = 128;
constexpr const char* kShapes =
    "q, out (T, heads*head_dim), k, v (T, kv_heads*head_dim) of one type, gradients alike, T = batch*seq, "
    "heads a "
    "multiple of kv_heads, lse (batch*heads, seq) fp32, scratch fp32 of at least attention_scratch elements";

std::int64_t block_rows(const AttentionShape& shape) {
  return std::min(kBlockRows, shape.seq);
}

/// The parts of the scratch.
struct Scratch {
  Scratch(const AttentionShape& shape, const Matrix& memory) {
    const std::int64_t rows = block_rows(shape);
    float* next = memory.as<float>();
    const auto take = [&next](std::int64_t count) {
      float* start = next;
      next += count;
      return start;
    };
    scores = take(rows * shape.seq);
    score_gradients = take(rows * shape.seq);
    keys = take(shape.seq * shape.head_dim);
    values = take(shape.seq * shape.head_dim);
    key_gradients = take(shape.seq * shape.head_dim);
    value_gradients = take(shape.seq * shape.head_dim);
    queries = take(rows * shape.head_dim);
    output_gradients = take(rows * shape.head_dim);
    result = take(rows * shape.head_dim);
    per_row = take(rows);
  }
  float *scores, *score_gradients, *keys, *values, *key_gradients, *value_gradients;
  float *queries, *output_gradients, *result, *per_row;
};

// The three loops below turn fp32 scores into numbers of the storage type in the same memory: what is written
// never passes what is still to be read, because an element is at most as wide as an fp32.

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

/// scores → probabilities exp(scale·score - lse), zero above the diagonal.
template <class T>
PLUMBLINE_MULTIVERSION void probability_rows(float* scores, std::int64_t rows, std::int64_t cols,
                                             std::int64_t seen, float scale, const float* lse) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = scores + r * cols;
    T* out = reinterpret_cast<T*>(scores) + r * cols;
    const std::int64_t valid = seen + r;
    for_lanes(valid, cols,
              [&] PLUMBLINE_LANES { store(out + i, exp(load(in + i, part) * scale - lse[r]), part); });
    std::memset(out + valid, 0, static_cast<std::size_t>(cols - valid) * sizeof(T));
  }
}

/// Gradients of the probabilities → of the unscaled scores: p·(dp - Σ dout·out)·scale.
template <class T>
PLUMBLINE_MULTIVERSION void score_gradient_rows(float* gradients, const T* probabilities, std::int64_t rows,
                                                std::int64_t cols, std::int64_t seen, float scale,
                                                const float* row_sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = gradients + r * cols;
    const T* p = probabilities + r * cols;
    T* out = reinterpret_cast<T*>(gradients) + r * cols;
    const std::int64_t valid = seen + r;
    for_lanes(valid, cols, [&] PLUMBLINE_LANES {
      store(out + i, load(p + i, part) * (load(in + i, part) - row_sums[r]) * scale, part);
    });
    std::memset(out + valid, 0, static_cast<std::size_t>(cols - valid) * sizeof(T));
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

template <class T>
PLUMBLINE_MULTIVERSION void dot_rows(Matrix a, Matrix b, float* dots) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* left = row_of<T>(a, r);
    const T* right = row_of<T>(b, r);
    Lanes total{};
    for_lanes(a.cols, [&] PLUMBLINE_LANES { total += load(left + i, part) * load(right + i, part); });
    dots[r] = sum(total);
  }
}

bool is_consistent(const AttentionShape& s) {
  return s.batch >= 0 && s.seq > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0 &&
         s.heads % s.kv_heads == 0;
}

bool agrees(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& out,
            const Matrix& lse, const Matrix& scratch, std::int64_t wanted) {
  return is_consistent(s) && has_shape(q, s.batch * s.seq, s.heads * s.head_dim) &&
         has_shape(k, q.rows, s.kv_heads * s.head_dim, q.dtype) && alike(v, k) && alike(out, q) &&
         has_shape(lse, s.batch * s.heads, s.seq, DType::fp32) && scratch.dtype == DType::fp32 &&
         scratch.contiguous() && scratch.elements() >= wanted;
}

/// Which slice of the token rows a head's block is.
struct Head {
  std::int64_t first_row, first_col, cols;
  Matrix rows(const Matrix& x, std::int64_t first, std::int64_t count) const {
    return x.columns(first_col, cols).row_range(first_row + first, count);
  }
};

}  // namespace

std::int64_t CpuOperators::attention_scratch(const AttentionShape& shape, DType /*type*/) const {
  const std::int64_t rows = block_rows(shape);
  return 2 * rows * shape.seq + 4 * shape.seq * shape.head_dim + 3 * rows * shape.head_dim + rows;
}

void CpuOperators::attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                     Matrix lse, Matrix scratch) {
  require(agrees(shape, q, k, v, out, lse, scratch, attention_scratch(shape, q.dtype)), "attention_forward",
          kShapes, {{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"scratch", scratch}});
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const Scratch parts(shape, scratch);
  const Matrix keys(parts.keys, shape.seq, d, q.dtype);
  const Matrix values(parts.values, shape.seq, d, q.dtype);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    const Head kv{sequence * shape.seq, kv_head * d, d};
    copy(kv.rows(k, 0, shape.seq), keys);
    copy(kv.rows(v, 0, shape.seq), values);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Head slice{sequence * shape.seq, head * d, d};
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
          softmax_rows<decltype(type)>(parts.scores, rows, cols, first + 1, scale, parts.per_row,
                                       row_lse + first);
        });
        gemm({.a = probabilities, .b = values.row_range(0, cols), .c = result, .bias = {}});
        with_type("attention_forward", q.dtype, [&](auto type) {
          divide_rows<decltype(type)>(parts.result, parts.per_row, slice.rows(out, first, rows));
        });
      }
    }
  }
}

void CpuOperators::attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out,
                                      Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv,
                                      Matrix scratch) {
  require(agrees(shape, q, k, v, out, lse, scratch, attention_scratch(shape, q.dtype)) && alike(dout, q) &&
              alike(dq, q) && alike(dk, k) && alike(dv, v),
          "attention_backward", kShapes,
          {{"q", q},
           {"k", k},
           {"v", v},
           {"out", out},
           {"lse", lse},
           {"dout", dout},
           {"dq", dq},
           {"dk", dk},
           {"dv", dv},
           {"scratch", scratch}});
  const std::int64_t d = shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const Scratch parts(shape, scratch);
  const Matrix keys(parts.keys, shape.seq, d, q.dtype);
  const Matrix values(parts.values, shape.seq, d, q.dtype);
  const Matrix key_gradients(parts.key_gradients, shape.seq, d, DType::fp32);
  const Matrix value_gradients(parts.value_gradients, shape.seq, d, DType::fp32);
  for (std::int64_t pair = 0; pair < shape.batch * shape.kv_heads; ++pair) {
    const std::int64_t sequence = pair / shape.kv_heads;
    const std::int64_t kv_head = pair % shape.kv_heads;
    const Head kv{sequence * shape.seq, kv_head * d, d};
    copy(kv.rows(k, 0, shape.seq), keys);
    copy(kv.rows(v, 0, shape.seq), values);
    fill(key_gradients, 0);
    fill(value_gradients, 0);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Head slice{sequence * shape.seq, head * d, d};
      const float* row_lse = row_of<float>(lse, sequence * shape.heads + head);
      for (std::int64_t first = 0; first < shape.seq; first += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, shape.seq - first);
        const std::int64_t cols = first + rows;
        const Matrix queries(parts.queries, rows, d, q.dtype);
        const Matrix output_gradients(parts.output_gradients, rows, d, q.dtype);
        const Matrix scores(parts.scores, rows, cols, DType::fp32);
        const Matrix probabilities(parts.scores, rows, cols, q.dtype);
        const Matrix dprobabilities(parts.score_gradients, rows, cols, DType::fp32);
        const Matrix dscores(parts.score_gradients, rows, cols, q.dtype);
        const Matrix result(parts.result, rows, d, q.dtype);
        const Matrix block_keys = keys.row_range(0, cols);
        const Matrix block_values = values.row_range(0, cols);
        copy(slice.rows(q, first, rows), queries);
        copy(slice.rows(dout, first, rows), output_gradients);
        gemm({.a = queries, .b = block_keys, .c = scores, .b_transposed = true, .bias = {}});
        gemm({.a = output_gradients,
              .b = block_values,
              .c = dprobabilities,
              .b_transposed = true,
              .bias = {}});
        with_type("attention_backward", q.dtype, [&](auto type) {
          using T = decltype(type);
          dot_rows<T>(output_gradients, slice.rows(out, first, rows), parts.per_row);
          probability_rows<T>(parts.scores, rows, cols, first + 1, scale, row_lse + first);
          score_gradient_rows<T>(parts.score_gradients, probabilities.as<T>(), rows, cols, first + 1, scale,
                                 parts.per_row);
        });
        gemm({.a = probabilities,
              .b = output_gradients,
              .c = value_gradients.row_range(0, cols),
              .a_transposed = true,
              .accumulate = true,
              .bias = {}});
        gemm({.a = dscores,
              .b = queries,
              .c = key_gradients.row_range(0, cols),
              .a_transposed = true,
              .accumulate = true,
              .bias = {}});
        gemm({.a = dscores, .b = block_keys, .c = result, .bias = {}});
        copy(result, slice.rows(dq, first, rows));
      }
    }
    copy(key_gradients, kv.rows(dk, 0, shape.seq));
    copy(value_gradients, kv.rows(dv, 0, shape.seq));
  }
}

}  // namespace plumbline::cpu
