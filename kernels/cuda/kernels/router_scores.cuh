// Common parts of the router kernels. A warp takes one token; all warps of a block do the same number of
// rounds, so that they may meet at barriers.
#pragma once

#include <algorithm>

#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/element_math.cuh"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

/// A Router as a kernel sees it.
struct RouterNumbers {
  int experts, top_k, groups, chosen_groups;
  bool normalized, sigmoid;
  float scale;
  const float* bias;  // of every expert, or none
};
inline RouterNumbers numbers_of(const Router& router, const Matrix& logits) {
  return {static_cast<int>(logits.cols),
          static_cast<int>(router.top_k),
          static_cast<int>(router.groups),
          static_cast<int>(router.chosen_groups),
          router.normalized,
          router.sigmoid,
          static_cast<float>(router.scale),
          router.bias.as<const float>()};
}

constexpr float kLeastSum = 1e-20F;  // that scores are divided by

/// Blocks whose warps take a token each and have `bytes` of shared memory each, a multiple of 16.
inline Grid grid_of_tokens(const Queue& queue, std::int64_t tokens, std::size_t bytes) {
  constexpr std::int64_t kMostWarps = 8;
  constexpr std::size_t kShared = 48 << 10;  // without asking for more
  const auto warps = std::clamp<std::int64_t>(static_cast<std::int64_t>(kShared / bytes), 1, kMostWarps);
  const std::int64_t blocks =
      std::clamp<std::int64_t>((tokens + warps - 1) / warps, 1, std::int64_t{queue.multiprocessors} * 16);
  return {.x = static_cast<unsigned>(blocks),
          .threads = static_cast<unsigned>(32 * warps),
          .dynamic_shared = static_cast<std::size_t>(warps) * bytes};
}

/// The round of a block's warps: the token of this one, the last one again if there is none left.
struct TokenRound {
  std::int64_t token;
  bool live;
};
__device__ inline TokenRound token_round(std::int64_t first, std::int64_t tokens) {
  const std::int64_t own = first + thread_x() / 32;
  return {own < tokens ? own : tokens - 1, own < tokens};
}
/// Tokens from one round to the next.
__device__ inline std::int64_t tokens_of_round() {
  return static_cast<std::int64_t>(grid_x()) * (block_threads() / 32);
}
__device__ inline std::int64_t first_token_of_block() {
  return static_cast<std::int64_t>(block_x()) * (block_threads() / 32);
}

/// The combination of the lanes' values, the same in all of them.
template <class V, class Combine>
__device__ V over_lanes(V value, Combine combine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

__device__ inline float largest_of(const float* values, int count, int lane) {
  float largest = -INFINITY;
  for (int i = lane; i < count; i += 32) largest = values[i] > largest ? values[i] : largest;
  return over_lanes(largest, Maximum{});
}

/// In their order, as the CPU adds them, by every lane: compared numbers must not depend on the adding lane.
__device__ inline float sum_in_order(const float* values, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}

/// Expert of a choice, dropped or not (operator route).
__device__ inline std::int32_t expert_of(std::int32_t chosen) {
  return chosen < 0 ? -1 - chosen : chosen;
}

}  // namespace plumbline::cuda
