// Causal grouped-query attention on tensor cores (mma.m16n8k16, fp32 sums) for bf16 and fp16 (Dao 2023,
// arXiv:2307.08691).
//
// Four warps, each with 16 of a block's 64 rows. Scores never leave registers: the result registers of one
// product are the left operand of the next. Backward is two kernels, so that nothing is summed across blocks.
// One goes over query rows for dq; one over keys, on transposed scores, for dk and dv. Floors, in products of
// the lower triangle: forward two; backward five, of which the two kernels do seven.
#include "kernels/cuda/attention/attention_fragments.cuh"

namespace plumbline::cuda {
namespace {

constexpr unsigned kThreads = kTensorThreads;
constexpr int kRows = 64;
constexpr float kLog2E = 1.4426950408889634F;

template <class T, int kHead, class Drop, class Window>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(HeadShape s, Inputs<T> in, View<T> out, View<float> lse, Drop drop, Window window) {
  constexpr int kCols = 64;
  T* queries = reinterpret_cast<T*>(dynamic_shared());
  T* keys = queries + kRows * kStride<kHead>;
  T* values = keys + kCols * kStride<kHead>;
  const int warp_row = static_cast<int>(thread_x() / 32) * 16;
  const Place at = place_of_queries(s, kRows);
  const int row = at.first + warp_row + lane_group();  // this thread's upper row; the lower is 8 further
  const float scale = s.scale * kLog2E;
  fill_tile<T, kHead, kRows>(queries, in.q, at.token(at.first), at.q_col, 0, at.count, s.head_dim);
  float total[kHead / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY};  // of the unscaled scores
  float sum[2] = {};
  const int end_key = window.end_key(at.first + at.count);
  for (int first_key = window.first_key(at.first, kCols); first_key < end_key; first_key += kCols) {
    const std::int64_t key_row = window.token(at, first_key);
    const int from = window.from(first_key);
    const int key_count = window.to(first_key, kCols, s.seq);
    sync_block();
    fill_tile<T, kHead, kCols>(keys, in.k, key_row, at.k_col, from, key_count, s.head_dim);
    fill_tile<T, kHead, kCols>(values, in.v, key_row, at.k_col, from, key_count, s.head_dim);
    sync_block();
    float scores[kCols / 8][4];
    multiply_rows<T, kHead, kCols>(scores, queries + warp_row * kStride<kHead>, keys);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float best = top[half];
#pragma unroll
      for (int j = 0; j < kCols / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[j][2 * half + i];
          const int key = first_key + j * 8 + lane_pair() + i;
          if (!window.sees(row + 8 * half, key)) score = -INFINITY;
          best = Maximum()(score, best);
        }
      }
      best = row_reduce(best, Maximum());
      // Finite: the first block of keys has key 0, which every row sees. In the first blocks of a window, or
      // of a part of the keys, a row may see nothing: its scores are -inf, and so is the largest.
      const float base = Window::kHides && best == -INFINITY ? 0.0F : best;
      const float shrink = exp2f((top[half] - base) * scale);
      top[half] = best;
      float part = 0;
#pragma unroll
      for (int j = 0; j < kCols / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[j][2 * half + i];
          score = exp2f((score - base) * scale);
          part += score;
        }
      }
      sum[half] = sum[half] * shrink + row_reduce(part, Sum());
#pragma unroll
      for (int j = 0; j < kHead / 8; ++j) {
        total[j][2 * half] *= shrink;
        total[j][2 * half + 1] *= shrink;
      }
    }
    zero_dropped_keys<kCols>(scores, drop, at, row, first_key);
    add_product<T, kHead, kCols>(total, scores, values);
  }
  const auto factor = [&](float of_row) {
    return Window::kBlind && of_row == 0 ? 0.0F : drop.scale() / of_row;
  };
  write_rows<T, kHead>(out, at.token(at.first), 0, at.count, warp_row, at.q_col, total, factor(sum[0]),
                       factor(sum[1]), s.head_dim);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int position = row + 8 * half;
    if (lane_pair() == 0 && position < s.seq) {
      lse.row(at.lse_row)[position] = top[half] * s.scale + logf(sum[half]);
    }
  }
}

template <class T, int kHead, class Drop, class Window>
__global__ void __launch_bounds__(kThreads)
    query_gradient_kernel(HeadShape s, Inputs<T> in, View<const T> dout, View<const float> lse,
                          const float* dots, View<T> dq, Drop drop, Window window) {
  constexpr int kCols = 32;
  T* queries = reinterpret_cast<T*>(dynamic_shared());
  T* gradients = queries + kRows * kStride<kHead>;
  T* keys = gradients + kRows * kStride<kHead>;
  T* values = keys + kCols * kStride<kHead>;
  const int warp_row = static_cast<int>(thread_x() / 32) * 16;
  const Place at = place_of_queries(s, kRows);
  const int row = at.first + warp_row + lane_group();
  fill_tile<T, kHead, kRows>(queries, in.q, at.token(at.first), at.q_col, 0, at.count, s.head_dim);
  fill_tile<T, kHead, kRows>(gradients, dout, at.token(at.first), at.q_col, 0, at.count, s.head_dim);
  float own_lse[2];
  float own_dot[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int position = row + 8 * half;
    const bool exists = position < s.seq;
    own_lse[half] = exists ? lse.row(at.lse_row)[position] : INFINITY;  // probabilities of zero
    own_dot[half] = exists ? dots[at.lse_row * s.seq + position] : 0.0F;
  }
  float total[kHead / 8][4] = {};
  const int end_key = window.end_key(at.first + at.count);
  for (int first_key = window.first_key(at.first, kCols); first_key < end_key; first_key += kCols) {
    const std::int64_t key_row = window.token(at, first_key);
    const int from = window.from(first_key);
    const int key_count = window.to(first_key, kCols, s.seq);
    sync_block();
    fill_tile<T, kHead, kCols>(keys, in.k, key_row, at.k_col, from, key_count, s.head_dim);
    fill_tile<T, kHead, kCols>(values, in.v, key_row, at.k_col, from, key_count, s.head_dim);
    sync_block();
    float scores[kCols / 8][4];
    float dscores[kCols / 8][4];
    multiply_rows<T, kHead, kCols>(scores, queries + warp_row * kStride<kHead>, keys);
    multiply_rows<T, kHead, kCols>(dscores, gradients + warp_row * kStride<kHead>, values);
    zero_dropped_keys<kCols>(dscores, drop, at, row, first_key);
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i / 2;
        const int key = first_key + j * 8 + lane_pair() + i % 2;
        const bool seen = window.sees(row + 8 * half, key);
        const float p = seen ? exp2f((scores[j][i] * s.scale - own_lse[half]) * kLog2E) : 0.0F;
        dscores[j][i] = p * (dscores[j][i] * drop.scale() - own_dot[half]) * s.scale;
      }
    }
    add_product<T, kHead, kCols>(total, dscores, keys);
  }
  write_rows<T, kHead>(dq, at.token(at.first), 0, at.count, warp_row, at.q_col, total, 1.0F, 1.0F,
                       s.head_dim);
}

/// Rows are keys here, columns queries. At least two blocks per multiprocessor: the compiler would choose
/// three and spill.
template <class T, int kHead, class Drop, class Window>
__global__ void __launch_bounds__(kThreads, Window::kBlind && !Drop::kDrops && kHead <= 64 ? 2 : 0)
    key_gradient_kernel(HeadShape s, Inputs<T> in, View<const T> dout, View<const float> lse,
                        const float* dots, View<T> dk, View<T> dv, Drop drop, Window window) {
  constexpr int kCols = 32;
  __shared__ float query_lse[kCols];
  __shared__ float query_dot[kCols];
  T* keys = reinterpret_cast<T*>(dynamic_shared());
  T* values = keys + kRows * kStride<kHead>;
  T* queries = values + kRows * kStride<kHead>;
  T* gradients = queries + kCols * kStride<kHead>;
  const int warp_row = static_cast<int>(thread_x() / 32) * 16;
  const Place at = place_of_keys(s, window, kRows);
  const int row = at.first + warp_row + lane_group();
  const std::int64_t key_row = window.token(at, at.first);
  const int from = window.from(at.first);
  fill_tile<T, kHead, kRows>(keys, in.k, key_row, at.k_col, from, at.count, s.head_dim);
  fill_tile<T, kHead, kRows>(values, in.v, key_row, at.k_col, from, at.count, s.head_dim);
  float key_total[kHead / 8][4] = {};
  float value_total[kHead / 8][4] = {};
  const int end_query = window.end_query(at.first + at.count, s.seq);
  for (int head = 0; head < s.group; ++head) {
    const std::int64_t q_col = at.q_col + static_cast<std::int64_t>(head) * s.head_dim;
    const std::int64_t lse_row = at.lse_row + head;
    for (int first_query = window.first_query(at.first); first_query < end_query; first_query += kCols) {
      const int query_count = min(kCols, s.seq - first_query);
      sync_block();
      fill_tile<T, kHead, kCols>(queries, in.q, at.token(first_query), q_col, 0, query_count, s.head_dim);
      fill_tile<T, kHead, kCols>(gradients, dout, at.token(first_query), q_col, 0, query_count, s.head_dim);
      if (thread_x() < kCols) {
        const int query = static_cast<int>(thread_x());
        const bool exists = query < query_count;
        query_lse[query] =
            exists ? lse.row(lse_row)[first_query + query] : INFINITY;  // probabilities of zero
        query_dot[query] = exists ? dots[lse_row * s.seq + first_query + query] : 0.0F;
      }
      sync_block();
      float scores[kCols / 8][4];
      float dscores[kCols / 8][4];
      multiply_rows<T, kHead, kCols>(scores, keys + warp_row * kStride<kHead>, queries);
      multiply_rows<T, kHead, kCols>(dscores, values + warp_row * kStride<kHead>, gradients);
      const Kept<Drop> kept[2] = {kept_queries(drop, at, head, row, first_query),
                                  kept_queries(drop, at, head, row + 8, first_query)};
      zero_dropped<4>(dscores, 0, kept);
#pragma unroll
      for (int j = 0; j < kCols / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int query = j * 8 + lane_pair() + i % 2;
          const int key = row + 8 * (i / 2);
          const bool seen = window.sees(first_query + query, key);
          const float p = seen ? exp2f((scores[j][i] * s.scale - query_lse[query]) * kLog2E) : 0.0F;
          scores[j][i] = p;
          dscores[j][i] = p * (dscores[j][i] * drop.scale() - query_dot[query]) * s.scale;
        }
      }
      zero_dropped<4>(scores, 0, kept);
      add_product<T, kHead, kCols>(value_total, scores, gradients);
      add_product<T, kHead, kCols>(key_total, dscores, queries);
    }
  }
  write_rows<T, kHead>(dk, key_row, from, at.count, warp_row, at.k_col, key_total, 1.0F, 1.0F, s.head_dim);
  write_rows<T, kHead>(dv, key_row, from, at.count, warp_row, at.k_col, value_total, drop.scale(),
                       drop.scale(), s.head_dim);
}

/// f(type, integral constant) for the storage type and the smallest bound of head sizes that holds.
template <class F>
void with_kernel(DType type, int head_dim, F&& f) {
  const auto with_bound = [&](auto element) {
    if (head_dim <= 64) return f(element, std::integral_constant<int, 64>());
    f(element, std::integral_constant<int, 128>());
  };
  if (type == DType::bf16) return with_bound(Bf16{});
  with_bound(Fp16{});
}

template <int kHead>
constexpr std::size_t shared_bytes(int rows) {
  return static_cast<std::size_t>(rows) * kStride<kHead> * 2;
}

}  // namespace

bool tensor_attention_takes(const HeadShape& s, const AttentionArguments& a) {
  return a.q.dtype != DType::fp32 && s.alibi_heads == 0 && s.prefix == 0 && s.head_dim <= 128 &&
         s.head_dim % kChunk == 0 && s.value_dim == s.head_dim && all_aligned(a.q, a.k, a.v, a.out);
}

bool tensor_attention_takes(const HeadShape& s, const AttentionArguments& a, const AttentionGradients& g) {
  return tensor_attention_takes(s, a) && all_aligned(g.dout, g.dq, g.dk, g.dv);
}

void tensor_attention_forward(const Queue& queue, const HeadShape& s, const AttentionArguments& a) {
  with_kernel(a.q.dtype, s.head_dim, [&](auto type, auto bound) {
    using T = decltype(type);
    constexpr int kHead = decltype(bound)::value;
    with_masks(s, a, [&](auto drop, auto window) {
      launch(queue,
             {.x = blocks_of(s.seq, kRows),
              .y = static_cast<unsigned>(s.batch * s.heads),
              .threads = kThreads,
              .dynamic_shared = shared_bytes<kHead>(3 * 64)},
             forward_kernel<T, kHead, decltype(drop), decltype(window)>, s, Inputs<T>(a), View<T>(a.out),
             View<float>(a.lse), drop, window);
    });
  });
}

void tensor_attention_backward(const Queue& queue, const HeadShape& s, const AttentionArguments& a,
                               const AttentionGradients& g) {
  with_kernel(a.q.dtype, s.head_dim, [&](auto type, auto bound) {
    using T = decltype(type);
    constexpr int kHead = decltype(bound)::value;
    const std::size_t shared = shared_bytes<kHead>(2 * kRows + 2 * 32);
    with_masks(s, a, [&](auto drop, auto window) {
      using Drop = decltype(drop);
      using Window = decltype(window);
      launch(queue,
             {.x = blocks_of(s.seq, kRows),
              .y = static_cast<unsigned>(s.batch * s.heads),
              .threads = kThreads,
              .dynamic_shared = shared},
             query_gradient_kernel<T, kHead, Drop, Window>, s, Inputs<T>(a), View<const T>(g.dout),
             View<const float>(a.lse), g.dots, View<T>(g.dq), drop, window);
      launch(queue,
             {.x = blocks_of(s.end_key, kRows),
              .y = static_cast<unsigned>(s.batch * s.kv_heads),
              .threads = kThreads,
              .dynamic_shared = shared},
             key_gradient_kernel<T, kHead, Drop, Window>, s, Inputs<T>(a), View<const T>(g.dout),
             View<const float>(a.lse), g.dots, View<T>(g.dk), View<T>(g.dv), drop, window);
    });
  });
}

}  // namespace plumbline::cuda
