// Choice of experts by tokens. Floor: logits once. A warp has a token's scores in shared memory and takes the
// largest of them, k times over E scores.
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/router_scores.cuh"

namespace plumbline::cuda {
namespace {

// May be chosen, has been chosen; 0: neither.
constexpr unsigned char kOpen = 1;
constexpr unsigned char kTaken = 2;

/// The largest of the open ones; of equal ones the lower index. As on the CPU, the first one if none is a
/// number.
__device__ int take_largest(const float* values, unsigned char* flags, int count, int lane) {
  int first = count;
  int best = count;
  float largest = -INFINITY;
  for (int i = lane; i < count; i += 32) {
    if (flags[i] != kOpen) continue;
    first = first < count ? first : i;
    const float value = values[i];
    if (!(value == value) || (best < count && !(value > largest))) continue;
    best = i;
    largest = value;
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const int other_first = shuffle_xor(first, mask);
    const int other = shuffle_xor(best, mask);
    const float value = shuffle_xor(largest, mask);
    first = other_first < first ? other_first : first;
    if (other == count) continue;
    if (best < count && !(value > largest || (value == largest && other < best))) continue;
    best = other;
    largest = value;
  }
  if (!(values[first] == values[first])) best = first;
  if (best % 32 == lane) flags[best] = kTaken;
  return best;
}

/// The sum of a group's two largest scores.
__device__ float best_two(const float* scores, int size) {
  int best = -1;
  float sum = 0;
  for (int round = 0; round < 2 && round < size; ++round) {
    int found = -1;
    for (int i = 0; i < size; ++i) {
      if (i == best || (found >= 0 && !(scores[i] > scores[found]))) continue;
      found = i;
    }
    sum += scores[found];
    best = found;
  }
  return sum;
}

/// Numbers that are compared. The softmax preserves the order of the logits. All warps of a block call it.
__device__ void put_compared(const RouterNumbers& router, const float* logits, int lane, float* scores) {
  const int experts = router.experts;
  const bool plain = !router.sigmoid && router.bias == nullptr && router.groups == 1;
  const float highest = plain || router.sigmoid ? 0 : largest_of(logits, experts, lane);
  for (int i = lane; i < experts; i += 32)
    scores[i] = plain ? logits[i] : router.sigmoid ? sigmoid(logits[i]) : expf(logits[i] - highest);
  sync_block();
  if (plain) return;
  const float sum = router.sigmoid ? 1 : sum_in_order(scores, experts);
  sync_block();
  for (int i = lane; i < experts; i += 32) {
    if (!router.sigmoid) scores[i] /= sum;
    if (router.bias != nullptr) scores[i] += router.bias[i];
  }
  sync_block();
}

__global__ void __launch_bounds__(256)
    choose_kernel(View<const float> logits, std::int64_t tokens, RouterNumbers router, unsigned bytes,
                  std::int32_t* chosen) {
  const int lane = static_cast<int>(thread_x() % 32);
  auto* scores = reinterpret_cast<float*>(dynamic_shared() + thread_x() / 32 * bytes);
  float* of_groups = scores + router.experts;
  auto* flags = reinterpret_cast<unsigned char*>(of_groups + router.groups);
  unsigned char* flags_of_groups = flags + router.experts;
  const int size = router.experts / router.groups;
  for (std::int64_t first = first_token_of_block(); first < tokens; first += tokens_of_round()) {
    const TokenRound at = token_round(first, tokens);
    put_compared(router, logits.row(at.token), lane, scores);
    if (router.groups > 1) {
      for (int group = lane; group < router.groups; group += 32) {
        of_groups[group] = best_two(scores + group * size, size);
        flags_of_groups[group] = kOpen;
      }
      sync_block();
      for (int i = 0; i < router.chosen_groups; ++i)
        (void)take_largest(of_groups, flags_of_groups, router.groups, lane);
      sync_block();
    }
    for (int i = lane; i < router.experts; i += 32)
      flags[i] = router.groups == 1 || flags_of_groups[i / size] == kTaken ? kOpen : 0;
    for (int j = 0; j < router.top_k; ++j) {
      const int expert = take_largest(scores, flags, router.experts, lane);
      if (lane == 0 && at.live) chosen[at.token * router.top_k + j] = expert;
    }
    sync_block();  // the next round's scores take the place of these
  }
}

}  // namespace

void choose_experts(const Queue& queue, const Router& router, Matrix logits, Matrix chosen) {
  const std::int64_t numbers = logits.cols + router.groups;
  const std::size_t bytes = (static_cast<std::size_t>(numbers) * (sizeof(float) + 1) + 15) / 16 * 16;
  launch(queue, grid_of_tokens(queue, logits.rows, bytes), choose_kernel, View<const float>(logits),
         logits.rows, numbers_of(router, logits), static_cast<unsigned>(bytes), chosen.as<std::int32_t>());
}

}  // namespace plumbline::cuda
