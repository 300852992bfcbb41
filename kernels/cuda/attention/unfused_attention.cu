// Parts of attention that keeps its probabilities, between its products: copies of keys and values for every
// query head, and the softmax of a row with its dropout, forward and backward. A block takes a row, a number
// for every key of the sequence. Floors: the softmax reads what a row sees and writes a whole row, with
// dropout another and a byte per key; its backward reads two rows (and bytes) and writes one.
#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/dropout.hpp"
#include "kernels/score_scale.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// Columns of a row that its query sees: [from, to).
struct SquareRow {
  int sequence, head, query, from, to;
  __device__ SquareRow(const HeadShape& s, std::int64_t row)
      : sequence(static_cast<int>(row / s.seq / s.heads)),
        head(static_cast<int>(row / s.seq % s.heads)),
        query(static_cast<int>(row % s.seq)),
        from(s.window == 0 ? 0 : max(0, query + 1 - s.window)),
        to(max(query + 1, s.prefix)) {}
  __device__ bool sees(int key) const { return key >= from && key < to; }
};

HeadShape whole_sequences(const AttentionShape& s) {
  return {.batch = static_cast<int>(s.batch),
          .seq = static_cast<int>(s.seq),
          .heads = static_cast<int>(s.heads),
          .kv_heads = static_cast<int>(s.kv_heads),
          .group = static_cast<int>(s.heads / s.kv_heads),
          .head_dim = static_cast<int>(s.head_dim),
          .value_dim = static_cast<int>(s.values()),
          .scale = score_scale(s.head_dim),
          .window = s.window < s.seq ? static_cast<int>(s.window) : 0,
          .first_head = static_cast<int>(s.first_head),
          .alibi_heads = static_cast<int>(s.alibi.heads),
          .alibi_factor = static_cast<float>(s.alibi.factor),
          .prefix = static_cast<int>(s.prefix)};
}

/// Where dropped probabilities go; `mask` is nullptr without dropout.
template <class T>
struct DroppedRows {
  Dropout dropout;
  std::uint32_t threshold;
  float factor;
  std::uint8_t* mask;
  T* dropped;
};

/// Scores come scaled.
template <class T>
__global__ void __launch_bounds__(kThreads)
    keep_softmax_kernel(HeadShape s, const T* scores, T* probabilities, View<float> lse, DroppedRows<T> to) {
  const std::int64_t index = block_x();
  const SquareRow row(s, index);
  const T* in = scores + index * s.seq;
  T* out = probabilities + index * s.seq;
  const float slope = slope_of(s, row.head);
  const auto score = [&](int key) { return to_float(in[key]) - slope * static_cast<float>(row.query - key); };
  const int thread = static_cast<int>(thread_x());
  float top = -INFINITY;
  for (int key = row.from + thread; key < row.to; key += kThreads) top = Maximum()(score(key), top);
  top = block_reduce(top, Maximum());
  float sum = 0;
  for (int key = row.from + thread; key < row.to; key += kThreads) sum += expf(score(key) - top);
  sum = block_reduce(sum, Sum());
  if (thread == 0) lse.row(index / s.seq)[row.query] = top + logf(sum);
  for (int first = 4 * thread; first < s.seq; first += 4 * static_cast<int>(kThreads)) {
    DropoutWords words{};
    if (to.mask != nullptr) {
      words = dropout_words(to.dropout, static_cast<std::uint32_t>(first) / 4,
                            static_cast<std::int64_t>(row.sequence) * s.seq + row.query,
                            static_cast<std::uint32_t>(1 + s.first_head + row.head));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first + i;
      if (key >= s.seq) break;
      const T kept = from_float<T>(row.sees(key) ? expf(score(key) - top) / sum : 0.0F);
      out[key] = kept;
      if (to.mask == nullptr) continue;
      const bool stays = row.sees(key) && words.word[i] >= to.threshold;
      to.mask[index * s.seq + key] = stays ? 1 : 0;
      to.dropped[index * s.seq + key] = from_float<T>(stays ? to_float(kept) * to.factor : 0.0F);
    }
  }
}

/// Gradients of the (dropped) probabilities become those of the scores before they were scaled. `mask`:
/// nullptr without dropout.
template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_gradient_kernel(HeadShape s, const T* probabilities, const std::uint8_t* mask, float factor,
                            T* gradients) {
  const std::int64_t index = block_x();
  const SquareRow row(s, index);
  const std::int64_t start = index * s.seq;
  const auto gradient = [&](int key) {
    const float given = to_float(gradients[start + key]);
    if (mask == nullptr) return given;
    return mask[start + key] != 0 ? given * factor : 0.0F;
  };
  float sum = 0;
  for (int key = row.from + static_cast<int>(thread_x()); key < row.to; key += kThreads)
    sum += to_float(probabilities[start + key]) * gradient(key);
  sum = block_reduce(sum, Sum());
  for (int key = static_cast<int>(thread_x()); key < s.seq; key += kThreads) {
    const float value =
        row.sees(key) ? to_float(probabilities[start + key]) * (gradient(key) - sum) * s.scale : 0.0F;
    gradients[start + key] = from_float<T>(value);
  }
}

/// Copies of keys, then of values, side by side.
template <class T>
__global__ void __launch_bounds__(kThreads)
    repeat_heads_kernel(HeadShape s, View<const T> k, View<const T> v, View<T> repeated, std::int64_t rows) {
  const int copies = s.group - 1;
  const int key_cols = s.kv_heads * copies * s.head_dim;
  const int cols = key_cols + s.kv_heads * copies * s.value_dim;
  const std::int64_t index = static_cast<std::int64_t>(block_x()) * kThreads + thread_x();
  if (index >= rows * cols) return;
  const std::int64_t row = index / cols;
  const int col = static_cast<int>(index % cols);
  const int own = col < key_cols ? col : col - key_cols;
  const int width = col < key_cols ? s.head_dim : s.value_dim;
  const View<const T>& from = col < key_cols ? k : v;
  repeated.row(row)[col] = from.row(row)[own / width / copies * width + own % width];
}

unsigned rows_of(const Matrix& square) {
  return static_cast<unsigned>(square.rows);
}

}  // namespace

void repeat_heads(const Queue& queue, const AttentionShape& shape, Matrix k, Matrix v, Matrix repeated) {
  if (repeated.empty()) return;
  with_element(k.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue,
           {.x = static_cast<unsigned>((repeated.elements() + kThreads - 1) / kThreads), .threads = kThreads},
           repeat_heads_kernel<T>, whole_sequences(shape), View<const T>(k), View<const T>(v),
           View<T>(repeated), repeated.rows);
  });
}

void keep_softmax(const Queue& queue, const AttentionShape& shape, const UnfusedAttention& kept, Matrix lse) {
  const bool drops = shape.dropout.probability > 0;
  with_element(kept.scores.dtype, [&](auto type) {
    using T = decltype(type);
    const DroppedRows<T> to{shape.dropout, dropout_threshold(shape.dropout.probability),
                            dropout_scale(shape.dropout.probability),
                            drops ? kept.mask.as<std::uint8_t>() : nullptr, kept.dropped.as<T>()};
    launch(queue, {.x = rows_of(kept.scores), .threads = kThreads}, keep_softmax_kernel<T>,
           whole_sequences(shape), kept.scores.as<const T>(), kept.probabilities.as<T>(), View<float>(lse),
           to);
  });
}

void softmax_gradient(const Queue& queue, const AttentionShape& shape, const UnfusedAttention& kept) {
  const bool drops = shape.dropout.probability > 0;
  with_element(kept.scores.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, {.x = rows_of(kept.scores), .threads = kThreads}, softmax_gradient_kernel<T>,
           whole_sequences(shape), kept.probabilities.as<const T>(),
           drops ? kept.mask.as<const std::uint8_t>() : nullptr, dropout_scale(shape.dropout.probability),
           kept.scores.as<T>());
  });
}

}  // namespace plumbline::cuda
