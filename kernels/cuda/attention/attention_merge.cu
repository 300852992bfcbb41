// Merges results of attention over different keys (Dao et al. 2022, arXiv:2205.14135 §3.1, between calls).
// Floor: three elements of the result per element.
#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

constexpr unsigned kMergeThreads = 256;

/// One warp per head and token, whose log-sum-exps all its lanes read before the first writes the new one.
template <class T>
__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(View<T> out, View<float> lse, View<const T> part, View<const float> part_lse,
                 std::int64_t tokens, std::int64_t rows, int head_dim, bool aligned) {
  const std::int64_t index = static_cast<std::int64_t>(block_x()) * (kMergeThreads / 32) + thread_x() / 32;
  const bool exists = index < rows;
  const std::int64_t head = exists ? index / tokens : 0;
  const std::int64_t token = exists ? index - head * tokens : 0;
  const float own = lse.row(head)[token];
  const float other = part_lse.row(head)[token];
  sync_block();
  if (!exists) return;
  const float top = own > other ? own : other;
  const float sum = top + logf(expf(own - top) + expf(other - top));
  const float keep = expf(own - sum);
  const float add = expf(other - sum);
  T* to = out.row(token) + head * head_dim;
  const T* from = part.row(token) + head * head_dim;
  for (int e = static_cast<int>(thread_x() % 32) * kChunk; e < head_dim; e += 32 * kChunk) {
    const Part chunk = part_at(e, head_dim, aligned);
    float whole[kChunk];
    float added[kChunk];
    load(to + e, chunk, whole);
    load(from + e, chunk, added);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) whole[i] = whole[i] * keep + added[i] * add;
    store(to + e, chunk, whole);
  }
  if (thread_x() % 32 == 0) lse.row(head)[token] = sum;
}

}  // namespace

void attention_merge(const Queue& queue, Matrix out, Matrix lse, Matrix part, Matrix part_lse) {
  if (out.empty()) return;
  const std::int64_t rows = lse.rows * lse.cols;
  const std::int64_t head_dim = out.cols / lse.rows;
  const bool aligned = pieces_aligned(out, head_dim) && pieces_aligned(part, head_dim);
  with_element(out.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue,
           {.x = static_cast<unsigned>((rows + kMergeThreads / 32 - 1) / (kMergeThreads / 32)),
            .threads = kMergeThreads},
           merge_kernel<T>, View<T>(out), View<float>(lse), View<const T>(part), View<const float>(part_lse),
           lse.cols, rows, static_cast<int>(head_dim), aligned);
  });
}

}  // namespace plumbline::cuda
