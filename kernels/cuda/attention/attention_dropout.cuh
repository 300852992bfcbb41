// Dropped probabilities of attention: drawn in the forward and again in the backward, never kept in memory.
//
// One Philox call decides about four neighbouring keys of a query (kernels/dropout.hpp). But no layout of
// scores over lanes gives a lane four neighbours. So the lanes that share a row draw for each other and
// exchange bits; in the kernels with keys as rows four neighbouring rows do. That takes a call for every four
// scores, the minimum, and two or three shuffles for every eight (of 32 bits). Scores above the diagonal in a
// block that crosses it are drawn for nothing.
#pragma once

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/dropout.hpp"

namespace plumbline::cuda {

/// Attention without dropout: kernels compile to the same code as without dropout support.
struct Undropped {
  static constexpr bool kDrops = false;
  __device__ static constexpr float scale() { return 1.0F; }
};

struct Dropped {
  static constexpr bool kDrops = true;
  Dropout dropout;
  std::uint32_t first_head;  // of the model's query heads
  std::uint32_t first_four;  // before those of the key that is counted as 0
  std::uint32_t threshold;
  float factor;
  explicit Dropped(const AttentionArguments& a)
      : dropout(a.dropout),
        first_head(static_cast<std::uint32_t>(a.first_head)),
        first_four(static_cast<std::uint32_t>(a.key_zero / 4)),
        threshold(dropout_threshold(a.dropout.probability)),
        factor(dropout_scale(a.dropout.probability)) {}
  /// Factor of the kept probabilities.
  __device__ float scale() const { return factor; }
};

/// Four neighbouring keys of one query.
struct FourScores {
  std::int64_t query_row;  // token row
  int first_key;           // divisible by four
};

/// Bits of scores that stay.
template <class Drop>
struct Kept {
  unsigned bits = 0;
  __device__ bool operator[](int bit) const {
    if constexpr (Drop::kDrops) return (bits >> bit & 1U) != 0;
    return true;
  }
  /// Shifted: bit i is bit i + count of this.
  __device__ Kept from(int count) const { return {bits >> count}; }
};

/// Bits [4·group, 4·group + 4) of the result are the scores where(group), for groups up to kGroups, eight
/// at most. kLanes lanes, kApart from each other, call it for the same groups and draw for each other.
/// `head`: the query head of this rank.
template <int kLanes, int kApart, int kGroups, class Drop, class Where>
__device__ Kept<Drop> draw_together(const Drop& drop, int head, Where where) {
  Kept<Drop> kept;
  if constexpr (Drop::kDrops) {
    const int own = static_cast<int>(thread_x()) / kApart % kLanes;
#pragma unroll
    for (int first = 0; first < kGroups; first += kLanes) {
      const int group = first + own;
      const FourScores four = where(group);
      const DropoutWords words =
          dropout_words(drop.dropout, drop.first_four + static_cast<std::uint32_t>(four.first_key) / 4,
                        four.query_row, 1 + drop.first_head + static_cast<std::uint32_t>(head));
#pragma unroll
      for (int i = 0; i < 4; ++i) kept.bits |= (words.word[i] < drop.threshold ? 0U : 1U) << (4 * group + i);
    }
#pragma unroll
    for (int mask = kApart; mask < kApart * kLanes; mask *= 2) kept.bits |= shuffle_xor(kept.bits, mask);
  }
  return kept;
}

/// f(Undropped or Dropped, WholePast, KeyWindow or KeyPart).
template <class F>
void with_masks(const HeadShape& s, const AttentionArguments& a, F&& f) {
  const auto with_window = [&](auto drop) {
    if (s.part) return f(drop, KeyPart(s));
    if (s.window == 0) return f(drop, WholePast{});
    f(drop, KeyWindow(s.window));
  };
  if (a.dropout.probability == 0) return with_window(Undropped{});
  with_window(Dropped(a));
}

}  // namespace plumbline::cuda
