// Common parts of the attention kernels: the shape in ints, the arguments, and the rows and columns of a
// block.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

/// Keys are counted like queries, from the sequence's first. A part of a sequence's keys (KeyPart) starts at
/// its first given key, or, if probabilities are dropped, at the multiple of four before it, since four are
/// drawn together.
struct HeadShape {
  int batch, seq, heads, kv_heads, group, head_dim;
  int value_dim;           // of a head of values and of the result
  float scale;             // 1 ÷ sqrt(head_dim)
  int window;              // keys that a query sees, less than seq; 0: all up to itself
  int first_head = 0;      // of the model's query heads
  int alibi_heads = 0;     // 0: no slopes
  float alibi_factor = 1;  // of slopes
  int prefix = 0;          // keys that every query sees
  bool part = false;       // the keys are not those at the queries' own positions
  int first_key = 0;       // number of the first key that is given
  int end_key = 0;         // one past that of the last; seq where keys are no part
  int past = 0;  // number of the first query's own key; negative where it is before all that are given
};

/// Amount subtracted from a score of a query head per key of distance: alibi_slope() on the device. 0 without
/// ALiBi.
__device__ inline float slope_of(const HeadShape& s, int head) {
  if (s.alibi_heads == 0) return 0.0F;
  int power = 1;
  while (2 * power <= s.alibi_heads) power *= 2;
  const int own = s.first_head + head;
  const float eighths =
      own < power ? static_cast<float>(2 * (own + 1)) : static_cast<float>(2 * (own - power) + 1);
  return s.alibi_factor * exp2f(-4.0F * eighths / static_cast<float>(power));
}

/// Rows [first, first + count) of one sequence, queries or keys, that a block works on, and the columns of
/// its heads.
struct Place {
  int sequence;
  std::int64_t sequence_row;  // token row of the sequence's first query
  std::int64_t q_col, k_col, v_col, out_col;
  std::int64_t lse_row;  // of the (first) query head
  int head;              // that head
  int first, count;
  __device__ std::int64_t token(int position) const { return sequence_row + position; }
};

/// Attention without a window: kernels compile to the same code as without window support.
struct WholePast {
  static constexpr bool kHides = false;  // true: a row may see nothing of a tile
  static constexpr bool kBlind = false;  // nor of any
  __device__ static constexpr bool sees(int query, int key) { return key <= query; }
  /// The key at a query's own position.
  __device__ static constexpr int own_key(int query) { return query; }
  __device__ static constexpr int first_key(int /*query*/, int /*tile*/) { return 0; }
  __device__ static constexpr int end_query(int /*end_key*/, int seq) { return seq; }
  /// One past the last key that a query before end_query sees.
  __device__ static constexpr int end_key(int end_query) { return end_query; }
  /// First query that sees a key from `key` on.
  __device__ static constexpr int first_query(int key) { return key; }
  /// Given rows of a tile of keys that begins at `first`: [from, to).
  __device__ static constexpr int from(int /*first*/) { return 0; }
  __device__ static int to(int first, int tile, int seq) { return min(tile, seq - first); }
  /// The token row of a key.
  __device__ static std::int64_t token(const Place& at, int key) { return at.token(key); }
};

/// The query at position i sees the keys j with i - keys < j <= i.
struct KeyWindow : WholePast {
  static constexpr bool kHides = true;
  int keys;
  explicit KeyWindow(int window) : keys(window) {}
  __device__ bool sees(int query, int key) const { return key <= query && key > query - keys; }
  /// First tile of `tile` keys that queries from `query` on see part of.
  __device__ int first_key(int query, int tile) const {
    return query < keys ? 0 : (query - keys + 1) / tile * tile;
  }
  /// One past the last query that sees a key before end_key.
  __device__ int end_query(int end_key, int seq) const { return min(seq - keys, end_key - 1) + keys; }
};

/// Keys [first, end); the query i sees j <= past + i, with a window j > past + i - window.
struct KeyPart {
  static constexpr bool kHides = true;
  static constexpr bool kBlind = true;
  int past, window, first, end;
  explicit KeyPart(const HeadShape& s) : past(s.past), window(s.window), first(s.first_key), end(s.end_key) {}
  __device__ int own_key(int query) const { return past + query; }
  __device__ bool sees(int query, int key) const {
    const int own = past + query;
    return key >= first && key < end && key <= own && (window == 0 || key > own - window);
  }
  __device__ int first_key(int query, int tile) const {
    const int seen = window == 0 ? first : max(first, past + query - window + 1);
    return seen / tile * tile;
  }
  __device__ int end_query(int end_key, int seq) const {
    return window == 0 ? seq : min(seq - window, end_key - 1 - past) + window;
  }
  __device__ int end_key(int end_query) const { return min(end, past + end_query); }
  __device__ int first_query(int key) const { return max(0, key - past); }
  __device__ int from(int tile_first) const { return first - tile_first; }
  __device__ int to(int tile_first, int tile, int /*seq*/) const { return min(tile, end - tile_first); }
  __device__ std::int64_t token(const Place& at, int key) const {
    return static_cast<std::int64_t>(at.sequence) * (end - first) + (key - first);
  }
};

struct AttentionArguments {
  Matrix q, k, v, out, lse;
  Dropout dropout;
  std::int64_t first_head;    // of the model's query heads
  std::int64_t key_zero = 0;  // position of the key that is counted as 0, a multiple of four if some drop
};
struct AttentionGradients {
  Matrix dout, dq, dk, dv;
  float* dots;  // (batch·heads, seq): Σ dout·out of each row
};

template <class T>
struct Inputs {
  View<const T> q, k, v;
  explicit Inputs(const AttentionArguments& a) : q(a.q), k(a.k), v(a.v) {}
};

/// Block y is a query head of a sequence. Block x counts query tiles from the last, which has the most keys,
/// so that the longest blocks start first.
__device__ inline Place place_of_queries(const HeadShape& s, int tile) {
  const int sequence = static_cast<int>(block_y()) / s.heads;
  const int head = static_cast<int>(block_y()) - sequence * s.heads;
  const int first = static_cast<int>(grid_x() - 1 - block_x()) * tile;
  return {sequence,
          static_cast<std::int64_t>(sequence) * s.seq,
          static_cast<std::int64_t>(head) * s.head_dim,
          static_cast<std::int64_t>(head / s.group) * s.head_dim,
          static_cast<std::int64_t>(head / s.group) * s.value_dim,
          static_cast<std::int64_t>(head) * s.value_dim,
          static_cast<std::int64_t>(block_y()),
          head,
          first,
          min(tile, s.seq - first)};
}

/// Block y is a key/value head of a sequence, block x a tile of keys; the first has the most queries.
template <class Window>
__device__ Place place_of_keys(const HeadShape& s, const Window& window, int tile) {
  const int sequence = static_cast<int>(block_y()) / s.kv_heads;
  const int kv_head = static_cast<int>(block_y()) - sequence * s.kv_heads;
  const int first = static_cast<int>(block_x()) * tile;
  const std::int64_t head = static_cast<std::int64_t>(kv_head) * s.group;
  return {sequence,
          static_cast<std::int64_t>(sequence) * s.seq,
          head * s.head_dim,
          static_cast<std::int64_t>(kv_head) * s.head_dim,
          static_cast<std::int64_t>(kv_head) * s.value_dim,
          head * s.value_dim,
          static_cast<std::int64_t>(sequence) * s.heads + head,
          static_cast<int>(head),
          first,
          window.to(first, tile, s.seq)};
}

inline unsigned blocks_of(int count, int tile) {
  return static_cast<unsigned>((count + tile - 1) / tile);
}

// attention_simple.cu
void simple_attention_forward(const Queue& queue, const HeadShape& shape,
                              const AttentionArguments& arguments);
void simple_attention_backward(const Queue& queue, const HeadShape& shape,
                               const AttentionArguments& arguments, const AttentionGradients& gradients);

// attention_tensor.cu: bf16 and fp16 whose rows and heads start at 16-byte boundaries, head sizes up to 128,
// values as wide.
bool tensor_attention_takes(const HeadShape& shape, const AttentionArguments& arguments);
bool tensor_attention_takes(const HeadShape& shape, const AttentionArguments& arguments,
                            const AttentionGradients& gradients);
void tensor_attention_forward(const Queue& queue, const HeadShape& shape,
                              const AttentionArguments& arguments);
void tensor_attention_backward(const Queue& queue, const HeadShape& shape,
                               const AttentionArguments& arguments, const AttentionGradients& gradients);

}  // namespace plumbline::cuda
