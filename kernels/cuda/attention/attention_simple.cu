// Causal grouped-query attention without tensor cores: every storage type, head sizes up to 256, including
// values of another head size. For fp32, and for shapes the tensor core kernels do not take.
//
// Blocks of 32 query rows by 32 keys in shared memory (Dao et al. 2022, arXiv:2205.14135). Forward keeps a
// running maximum and sum per row. Backward is two kernels, so that nothing is summed across blocks. For dq,
// one block per 32 query rows. For dk and dv, one per 32 keys and key/value head, which goes over the group's
// query heads in order.
#include <type_traits>

#include "kernels/cuda/attention/attention_tiles.cuh"

namespace plumbline::cuda {
namespace {

/// Blocks per multiprocessor: as many as fit into shared memory without spilling registers.
constexpr int fewest_blocks(int head) {
  return head <= 64 ? 4 : head <= 128 ? 2 : 1;
}

/// Every window and prefix at run time. The comparisons are hidden behind the cost of scores, and a kernel
/// for each took four times as long to compile.
struct SeenKeys : KeyPart {
  int prefix;
  explicit SeenKeys(const HeadShape& s) : KeyPart(s), prefix(s.prefix) {}
  __device__ bool sees(int query, int key) const { return KeyPart::sees(query, key) || key < prefix; }
  __device__ int end_key(int end_query) const { return max(KeyPart::end_key(end_query), prefix); }
  __device__ int first_query(int key) const { return key < prefix ? 0 : KeyPart::first_query(key); }
};

/// f(Undropped or Dropped)
template <class F>
void with_dropout(const AttentionArguments& a, F&& f) {
  if (a.dropout.probability == 0) return f(Undropped{});
  f(Dropped(a));
}

template <class T, int kHead, class Drop>
__global__ void __launch_bounds__(kTileThreads, fewest_blocks(kHead))
    forward_kernel(HeadShape s, Inputs<T> in, View<T> out, View<float> lse, Drop drop, SeenKeys window) {
  TileMaker make;
  const Tile queries = make(s.head_dim);
  const Tile keys = make(s.head_dim);
  const Tile values = make(s.value_dim);
  const Tile scores = make(kTile);
  const int row = static_cast<int>(thread_x()) / kSharers;
  const int sharer = static_cast<int>(thread_x()) % kSharers;
  const Place at = place_of_queries(s, kTile);
  fill_tile(queries, in.q, at.token(at.first), at.q_col, 0, at.count, s.head_dim);
  const float slope = slope_of(s, at.head);
  float total[kHead / kSharers] = {};
  float top = -INFINITY;
  float sum = 0;
  const int end_key = window.end_key(at.first + at.count);
  for (int first_key = window.first_key(at.first, kTile); first_key < end_key; first_key += kTile) {
    const std::int64_t key_row = window.token(at, first_key);
    const int from = window.from(first_key);
    const int key_count = window.to(first_key, kTile, s.seq);
    sync_block();
    fill_tile(keys, in.k, key_row, at.k_col, from, key_count, s.head_dim);
    fill_tile(values, in.v, key_row, at.v_col, from, key_count, s.value_dim);
    sync_block();
    float score[kPerThread];
    float best = top;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int key = sharer + kSharers * j;
      // Keys past the sequence are later than every query.
      const bool seen = window.sees(at.first + row, first_key + key);
      score[j] = seen ? dot(queries, row, keys, key, s.head_dim) * s.scale -
                            slope * static_cast<float>(window.own_key(at.first + row) - first_key - key)
                      : -INFINITY;
      best = Maximum()(score[j], best);
    }
    best = sharers_reduce(best, Maximum());
    const Kept<Drop> kept = kept_keys(drop, at, row, sharer, first_key);
    // A row may see nothing of the first tiles of a window: its scores are -inf, and so is the largest.
    const float base = best == -INFINITY ? 0.0F : best;
    const float shrink = expf(top - base);  // 0 in the first round
    float part = 0;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const float p = expf(score[j] - base);
      scores.at(row, sharer + kSharers * j) = kept[kSharers * j] ? p : 0.0F;
      part += p;
    }
    sum = sum * shrink + sharers_reduce(part, Sum());
    top = best;
#pragma unroll
    for (float& x : total) x *= shrink;
    sync_block();
    add_product(total, scores, row, values, sharer, s.value_dim);
  }
  if (row >= at.count) return;
  const float factor = sum == 0 ? 0.0F : drop.scale() / sum;
  write_row(out, at.token(at.first + row), at.out_col, total, factor, sharer, s.value_dim);
  if (sharer == 0) lse.row(at.lse_row)[at.first + row] = top + logf(sum);
}

template <class T, int kHead, class Drop>
__global__ void __launch_bounds__(kTileThreads, fewest_blocks(kHead))
    query_gradient_kernel(HeadShape s, Inputs<T> in, View<const T> dout, View<const float> lse,
                          const float* dots, View<T> dq, Drop drop, SeenKeys window) {
  TileMaker make;
  const Tile queries = make(s.head_dim);
  const Tile gradients = make(s.value_dim);
  const Tile keys = make(s.head_dim);
  const Tile values = make(s.value_dim);
  const Tile dscores = make(kTile);
  const int row = static_cast<int>(thread_x()) / kSharers;
  const int sharer = static_cast<int>(thread_x()) % kSharers;
  const Place at = place_of_queries(s, kTile);
  fill_tile(queries, in.q, at.token(at.first), at.q_col, 0, at.count, s.head_dim);
  fill_tile(gradients, dout, at.token(at.first), at.out_col, 0, at.count, s.value_dim);
  const float slope = slope_of(s, at.head);
  const bool exists = row < at.count;
  const float own_lse = exists ? lse.row(at.lse_row)[at.first + row] : 0.0F;
  const float own_dot = exists ? dots[at.lse_row * s.seq + at.first + row] : 0.0F;
  float total[kHead / kSharers] = {};
  const int end_key = window.end_key(at.first + at.count);
  for (int first_key = window.first_key(at.first, kTile); first_key < end_key; first_key += kTile) {
    const std::int64_t key_row = window.token(at, first_key);
    const int from = window.from(first_key);
    const int key_count = window.to(first_key, kTile, s.seq);
    sync_block();
    fill_tile(keys, in.k, key_row, at.k_col, from, key_count, s.head_dim);
    fill_tile(values, in.v, key_row, at.v_col, from, key_count, s.value_dim);
    sync_block();
    const Kept<Drop> kept = kept_keys(drop, at, row, sharer, first_key);
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int key = sharer + kSharers * j;
      float ds = 0;
      if (exists && window.sees(at.first + row, first_key + key)) {
        const float past = slope * static_cast<float>(window.own_key(at.first + row) - first_key - key);
        const float p = expf(dot(queries, row, keys, key, s.head_dim) * s.scale - past - own_lse);
        const float dp = kept[kSharers * j] ? dot(gradients, row, values, key, s.value_dim) : 0.0F;
        ds = p * (dp * drop.scale() - own_dot) * s.scale;
      }
      dscores.at(row, key) = ds;
    }
    sync_block();
    add_product(total, dscores, row, keys, sharer, s.head_dim);
  }
  if (exists) write_row(dq, at.token(at.first + row), at.q_col, total, 1.0F, sharer, s.head_dim);
}

template <class T, int kHead, class Drop>
__global__ void __launch_bounds__(kTileThreads, fewest_blocks(kHead))
    key_gradient_kernel(HeadShape s, Inputs<T> in, View<const T> dout, View<const float> lse,
                        const float* dots, View<T> dk, View<T> dv, Drop drop, SeenKeys window) {
  TileMaker make;
  const Tile queries = make(s.head_dim);
  const Tile gradients = make(s.value_dim);
  const Tile keys = make(s.head_dim);
  const Tile values = make(s.value_dim);
  const Tile probabilities = make(kTile);
  const Tile dscores = make(kTile);
  const int row = static_cast<int>(thread_x()) / kSharers;  // the key's
  const int sharer = static_cast<int>(thread_x()) % kSharers;
  const Place at = place_of_keys(s, window, kTile);
  const std::int64_t key_row = window.token(at, at.first);
  const int from = window.from(at.first);
  fill_tile(keys, in.k, key_row, at.k_col, from, at.count, s.head_dim);
  fill_tile(values, in.v, key_row, at.v_col, from, at.count, s.value_dim);
  float key_total[kHead / kSharers] = {};
  float value_total[kHead / kSharers] = {};
  const int begin_query = window.first_query(at.first);
  const int end_query = window.end_query(at.first + at.count, s.seq);
  for (int head = 0; head < s.group; ++head) {
    const std::int64_t q_col = at.q_col + static_cast<std::int64_t>(head) * s.head_dim;
    const std::int64_t out_col = at.out_col + static_cast<std::int64_t>(head) * s.value_dim;
    const std::int64_t lse_row = at.lse_row + head;
    const float slope = slope_of(s, at.head + head);
    for (int first_query = begin_query; first_query < end_query; first_query += kTile) {
      const int query_count = min(kTile, s.seq - first_query);
      sync_block();
      fill_tile(queries, in.q, at.token(first_query), q_col, 0, query_count, s.head_dim);
      fill_tile(gradients, dout, at.token(first_query), out_col, 0, query_count, s.value_dim);
      sync_block();
      const Kept<Drop> kept = kept_queries(drop, at, head, row, sharer, first_query);
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const int query = sharer + kSharers * j;
        float p = 0;
        float ds = 0;
        if (query < query_count && window.sees(first_query + query, at.first + row)) {
          const std::int64_t position = first_query + query;
          const float past = slope * static_cast<float>(window.own_key(first_query + query) - at.first - row);
          p = expf(dot(keys, row, queries, query, s.head_dim) * s.scale - past - lse.row(lse_row)[position]);
          const float dp = kept[4 * j] ? dot(values, row, gradients, query, s.value_dim) : 0.0F;
          ds = p * (dp * drop.scale() - dots[lse_row * s.seq + position]) * s.scale;
        }
        probabilities.at(row, query) = kept[4 * j] ? p : 0.0F;
        dscores.at(row, query) = ds;
      }
      sync_block();
      add_product(value_total, probabilities, row, gradients, sharer, s.value_dim);
      add_product(key_total, dscores, row, queries, sharer, s.head_dim);
    }
  }
  if (row < from || row >= at.count) return;
  write_row(dk, key_row + row, at.k_col, key_total, 1.0F, sharer, s.head_dim);
  write_row(dv, key_row + row, at.v_col, value_total, drop.scale(), sharer, s.value_dim);
}

/// Bytes of tiles of queries and keys, of values and gradients of the result, and of scores.
std::size_t shared_bytes(int head_tiles, int value_tiles, int score_tiles, const HeadShape& s) {
  return static_cast<std::size_t>(kTile * (head_tiles * (s.head_dim + 1) + value_tiles * (s.value_dim + 1) +
                                           score_tiles * (kTile + 1))) *
         sizeof(float);
}

/// f(integral constant) with the smallest bound of both head sizes that holds.
template <class F>
void with_head_bound(const HeadShape& s, F&& f) {
  const int widest = s.value_dim > s.head_dim ? s.value_dim : s.head_dim;
  if (widest <= 64) return f(std::integral_constant<int, 64>());
  if (widest <= 128) return f(std::integral_constant<int, 128>());
  return f(std::integral_constant<int, 256>());
}

}  // namespace

void simple_attention_forward(const Queue& queue, const HeadShape& s, const AttentionArguments& a) {
  with_element(a.q.dtype, [&](auto type) {
    using T = decltype(type);
    with_head_bound(s, [&](auto bound) {
      with_dropout(a, [&](auto drop) {
        launch(queue,
               {.x = blocks_of(s.seq, kTile),
                .y = static_cast<unsigned>(s.batch * s.heads),
                .threads = kTileThreads,
                .dynamic_shared = shared_bytes(2, 1, 1, s)},
               forward_kernel<T, decltype(bound)::value, decltype(drop)>, s, Inputs<T>(a), View<T>(a.out),
               View<float>(a.lse), drop, SeenKeys(s));
      });
    });
  });
}

void simple_attention_backward(const Queue& queue, const HeadShape& s, const AttentionArguments& a,
                               const AttentionGradients& g) {
  with_element(a.q.dtype, [&](auto type) {
    using T = decltype(type);
    with_head_bound(s, [&](auto bound) {
      constexpr int kBound = decltype(bound)::value;
      with_dropout(a, [&](auto drop) {
        using Drop = decltype(drop);
        launch(queue,
               {.x = blocks_of(s.seq, kTile),
                .y = static_cast<unsigned>(s.batch * s.heads),
                .threads = kTileThreads,
                .dynamic_shared = shared_bytes(2, 2, 1, s)},
               query_gradient_kernel<T, kBound, Drop>, s, Inputs<T>(a), View<const T>(g.dout),
               View<const float>(a.lse), g.dots, View<T>(g.dq), drop, SeenKeys(s));
        launch(queue,
               {.x = blocks_of(s.end_key, kTile),
                .y = static_cast<unsigned>(s.batch * s.kv_heads),
                .threads = kTileThreads,
                .dynamic_shared = shared_bytes(2, 2, 2, s)},
               key_gradient_kernel<T, kBound, Drop>, s, Inputs<T>(a), View<const T>(g.dout),
               View<const float>(a.lse), g.dots, View<T>(g.dk), View<T>(g.dv), drop, SeenKeys(s));
      });
    });
  });
}

}  // namespace plumbline::cuda
