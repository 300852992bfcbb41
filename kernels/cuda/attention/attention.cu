// Causal grouped-query attention: picks the kernels for a shape, and Σ dout·out of every row, which
// backward starts from.

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/score_scale.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// One warp per row of one head.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dots_kernel(HeadShape s, View<const T> out, View<const T> dout, float* dots, std::int64_t rows) {
  const std::int64_t index = static_cast<std::int64_t>(block_x()) * (kThreads / 32) + thread_x() / 32;
  if (index >= rows) return;  // the whole warp: index is the warp's
  const std::int64_t position = index % s.seq;
  const std::int64_t head = index / s.seq % s.heads;
  const std::int64_t sequence = index / s.seq / s.heads;
  const T* left = out.row(sequence * s.seq + position) + head * s.value_dim;
  const T* right = dout.row(sequence * s.seq + position) + head * s.value_dim;
  float sum = 0;
  for (int e = static_cast<int>(thread_x() % 32); e < s.value_dim; e += 32)
    sum += to_float(left[e]) * to_float(right[e]);
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_x() % 32 == 0) dots[index] = sum;
}

/// Distance from the key counted as 0 to the first given key.
std::int64_t lead_of(const AttentionShape& s) {
  return s.dropout.probability > 0 ? s.key_start % 4 : 0;
}

HeadShape head_shape(const AttentionShape& s) {
  const std::int64_t lead = lead_of(s);
  const std::int64_t past = s.past - s.key_start + lead;
  return {static_cast<int>(s.batch),
          static_cast<int>(s.seq),
          static_cast<int>(s.heads),
          static_cast<int>(s.kv_heads),
          static_cast<int>(s.heads / s.kv_heads),
          static_cast<int>(s.head_dim),
          static_cast<int>(s.values()),
          score_scale(s.head_dim),
          s.window < s.past + s.seq ? static_cast<int>(s.window) : 0,
          static_cast<int>(s.first_head),
          static_cast<int>(s.alibi.heads),
          static_cast<float>(s.alibi.factor),
          static_cast<int>(s.prefix),
          past != 0 || lead != 0 || s.keys() != s.seq,
          static_cast<int>(lead),
          static_cast<int>(lead + s.keys()),
          static_cast<int>(past)};
}

AttentionArguments arguments_of(const AttentionShape& s, const Matrix& q, const Matrix& k, const Matrix& v,
                                const Matrix& out, const Matrix& lse) {
  return {q, k, v, out, lse, s.dropout, s.first_head, s.key_start - lead_of(s)};
}

}  // namespace

void attention_forward(const Queue& queue, const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                       Matrix out, Matrix lse) {
  if (q.empty()) return;
  const HeadShape s = head_shape(shape);
  const AttentionArguments arguments = arguments_of(shape, q, k, v, out, lse);
  if (tensor_attention_takes(s, arguments)) return tensor_attention_forward(queue, s, arguments);
  simple_attention_forward(queue, s, arguments);
}

void attention_backward(const Queue& queue, const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                        Matrix out, Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv, float* dots) {
  if (q.empty()) return;
  const HeadShape s = head_shape(shape);
  const std::int64_t rows = shape.batch * shape.heads * shape.seq;
  with_element(q.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue,
           {.x = static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32)), .threads = kThreads},
           dots_kernel<T>, s, View<const T>(out), View<const T>(dout), dots, rows);
  });
  const AttentionArguments arguments = arguments_of(shape, q, k, v, out, lse);
  const AttentionGradients gradients{dout, dq, dk, dv, dots};
  if (tensor_attention_takes(s, arguments, gradients)) {
    return tensor_attention_backward(queue, s, arguments, gradients);
  }
  simple_attention_backward(queue, s, arguments, gradients);
}

}  // namespace plumbline::cuda
