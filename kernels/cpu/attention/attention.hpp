// Causal attention in blocks of query rows. The forward keeps only the log-sum-exp of each row of scores; the
// backward recomputes the scores from it (Dao et al. 2022, arXiv:2205.14135, without the split over keys: a
// block of rows sees all its keys at once).
//
// Every query head is processed in blocks of B = min(128, seq) query rows. Scores are computed up to the
// block's last row, or up to the prefix's if that is later, so products above the diagonal blocks are never
// done. With a window they begin at the first key that the block's first row sees, rounded down to a multiple
// of 64. Head slices are first copied without gaps, since oneDNN's fast kernels need that. Key and value
// gradients of the query heads that share a key/value head are summed in fp32.
//
// attention_scratch(shape, type) has, for every type, with K keys and d' a head of values, this many fp32
// elements:
//   2·B·K + 2·K·(d + d') + B·(d + d' + max(d, d')) + B
//     B·K    scores, then probabilities      B·K    gradients of the scores
//     K·d    each: keys and their gradients; K·d' values and theirs
//     B·d    queries; B·d' output gradients; B·max(d, d') the block's result
//     B      one number per row: sum of exponentials, or Σ dout·out
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/alibi.hpp"
#include "kernels/checks/arguments.hpp"
#include "kernels/cpu/dropout_lanes.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cpu {

inline constexpr std::int64_t kBlockRows = 128;
inline std::int64_t block_rows(const AttentionShape& shape) {
  return std::min(kBlockRows, shape.seq);
}

/// Key of the first score column of a block whose first row is `first` keys after the first given one.
inline std::int64_t first_key(const AttentionShape& shape, std::int64_t first) {
  if (shape.window == 0) return 0;
  return std::max<std::int64_t>(0, first + 1 - shape.window) / kMaskChunk * kMaskChunk;
}

/// Columns of a block's scores that its rows see: row r sees [from(r), to(r)).
struct SeenColumns {
  std::int64_t diagonal;  // the column of row 0's own key
  std::int64_t window;
  std::int64_t prefix;  // columns that every row sees
  std::int64_t cols;    // that there are
  PLUMBLINE_INLINE std::int64_t to(std::int64_t row) const {
    return std::min(std::max(diagonal + row + 1, prefix), cols);
  }
  PLUMBLINE_INLINE std::int64_t from(std::int64_t row) const {
    return window == 0 ? 0 : std::clamp<std::int64_t>(diagonal + row + 1 - window, 0, to(row));
  }
};

/// The parts of the scratch.
struct AttentionScratch {
  AttentionScratch(const AttentionShape& shape, const Matrix& memory) {
    const std::int64_t rows = block_rows(shape);
    float* next = memory.as<float>();
    const auto take = [&next](std::int64_t count) {
      float* start = next;
      next += count;
      return start;
    };
    scores = take(rows * shape.keys());
    score_gradients = take(rows * shape.keys());
    keys = take(shape.keys() * shape.head_dim);
    values = take(shape.keys() * shape.values());
    key_gradients = take(shape.keys() * shape.head_dim);
    value_gradients = take(shape.keys() * shape.values());
    queries = take(rows * shape.head_dim);
    output_gradients = take(rows * shape.values());
    result = take(rows * std::max(shape.head_dim, shape.values()));
    per_row = take(rows);
  }
  float *scores, *score_gradients, *keys, *values, *key_gradients, *value_gradients;
  float *queries, *output_gradients, *result, *per_row;
};

// Loops over a block's rows convert fp32 scores to the storage type in the same memory. Writes never pass the
// next read, because an element is at most as wide as an fp32.

/// Zeroes the columns of a row of the storage type that it does not see. Columns in front may be zeroed
/// before the row is computed; those behind may not, because its fp32 numbers may lie there.
template <class T>
void zero_before(T* row, std::int64_t from) {
  std::memset(row, 0, static_cast<std::size_t>(from) * sizeof(T));
}
template <class T>
void zero_behind(T* row, std::int64_t to, std::int64_t cols) {
  std::memset(row + to, 0, static_cast<std::size_t>(cols - to) * sizeof(T));
}

/// ALiBi: subtracts distances from a block's unscaled scores before the softmax; nothing with slope 0.
void subtract_distances(float* scores, std::int64_t rows, std::int64_t cols, const SeenColumns& seen,
                        float slope);

/// Slice of the token rows that holds a head's block.
struct HeadSlice {
  std::int64_t first_row, first_col, cols;
  Matrix rows(const Matrix& x, std::int64_t first, std::int64_t count) const {
    return x.columns(first_col, cols).row_range(first_row + first, count);
  }
};

/// CpuOperators::attention_forward of sequences with one query each, without dropout.
void attend_single_queries(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                           const Matrix& out, const Matrix& lse, const AttentionScratch& parts);

/// The draws of a block of query rows that begins with its sequence's query `first`.
inline DrawnRows draws_of(const AttentionShape& shape, std::int64_t sequence, std::int64_t head,
                          std::int64_t first) {
  return {shape.dropout, sequence * shape.seq + first,
          static_cast<std::uint32_t>(1 + shape.first_head + head),
          shape.key_start + first_key(shape, shape.past - shape.key_start + first)};
}

}  // namespace plumbline::cpu
