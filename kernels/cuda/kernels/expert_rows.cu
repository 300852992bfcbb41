// Expert rows: choices counted, put in the order of experts, weighed, and dropped if there are too many.
// Floor: the logits and a few numbers per choice. Comparisons take longer: 256 + E per choice, and for a
// capacity by weight one per pair of choices of an expert. No atomics: counts of tiles of 256 choices are
// added up in order.
#include "kernels/cuda/device/fast_divide.cuh"
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/router_scores.cuh"

namespace plumbline::cuda {
namespace {

constexpr unsigned kTile = 256;  // choices, and threads

std::int64_t tiles_of(std::int64_t choices) {
  return (choices + kTile - 1) / kTile;
}

/// Layout of the scratch, int32 but for `weights`.
struct RowScratch {
  std::int32_t *counts, *starts, *before, *places, *order;
  float* weights;
  RowScratch(std::int32_t* scratch, std::int64_t choices, std::int64_t experts)
      : counts(scratch),               // of every expert
        starts(counts + experts),      // its first row, and that of an expert after the last
        before(starts + experts + 1),  // of every expert and tile the choices in earlier tiles
        places(before + experts * tiles_of(choices)),
        order(places + choices),
        weights(reinterpret_cast<float*>(order + choices)) {}
};

/// The experts of a tile's choices in shared memory, -1 where a choice does not count; how many there are.
__device__ int load_tile(const std::int32_t* chosen, std::int64_t choices, bool dropped, std::int32_t* tile) {
  const std::int64_t first = static_cast<std::int64_t>(block_x()) * kTile;
  const std::int64_t left = choices - first;
  if (thread_x() < left) {
    const std::int32_t own = chosen[first + thread_x()];
    tile[thread_x()] = own >= 0 ? own : dropped ? expert_of(own) : -1;
  }
  sync_block();
  return left < kTile ? static_cast<int>(left) : static_cast<int>(kTile);
}

__global__ void __launch_bounds__(kTile) count_kernel(const std::int32_t* chosen, std::int64_t choices,
                                                      int experts, bool dropped, std::int32_t* counts) {
  __shared__ std::int32_t tile[kTile];
  const int here = load_tile(chosen, choices, dropped, tile);
  for (int expert = static_cast<int>(thread_x()); expert < experts; expert += static_cast<int>(kTile)) {
    std::int32_t count = 0;
    for (int i = 0; i < here; ++i) count += tile[i] == expert ? 1 : 0;
    counts[static_cast<std::int64_t>(expert) * grid_x() + block_x()] = count;
  }
}

/// The sum of the lanes before this one, and that of all.
struct Prefix {
  std::int32_t before, all;
};
__device__ Prefix prefix_of(std::int32_t value, int lane) {
  Prefix sums{0, value};
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) {
    const std::int32_t other = shuffle_xor(sums.all, mask);
    if ((lane & mask) != 0) sums.before += other;
    sums.all += other;
  }
  return sums;
}

/// A warp adds the counts of an expert's tiles up.
__global__ void __launch_bounds__(32)
    scan_kernel(std::int32_t* before, std::int64_t tiles, std::int32_t* counts) {
  const int lane = static_cast<int>(thread_x());
  std::int32_t* of_expert = before + block_x() * tiles;
  std::int32_t sum = 0;
  for (std::int64_t first = 0; first < tiles; first += 32) {
    const bool live = first + lane < tiles;
    const Prefix sums = prefix_of(live ? of_expert[first + lane] : 0, lane);
    if (live) of_expert[first + lane] = sum + sums.before;
    sum += sums.all;
  }
  if (lane == 0) counts[block_x()] = sum;
}

/// First row of every expert. rows: of each, whatever its count; 0: its count, padded to a multiple.
__global__ void __launch_bounds__(32)
    starts_kernel(const std::int32_t* counts, int experts, std::int32_t rows, std::int32_t multiple,
                  std::int32_t* starts) {
  const int lane = static_cast<int>(thread_x());
  std::int32_t sum = 0;
  for (int first = 0; first < experts; first += 32) {
    const bool live = first + lane < experts;
    const std::int32_t own =
        !live || rows > 0 ? rows : (counts[first + lane] + multiple - 1) / multiple * multiple;
    const Prefix sums = prefix_of(live ? own : 0, lane);
    if (live) starts[first + lane] = sum + sums.before;
    sum += sums.all;
  }
  if (lane == 0) starts[experts] = sum;
}

/// places: the row of every choice. items: of every row its choice, divided by `of_item`.
__global__ void __launch_bounds__(kTile)
    place_kernel(const std::int32_t* chosen, std::int64_t choices, const std::int32_t* starts,
                 const std::int32_t* before, FastDivide of_item, std::int32_t* places, std::int32_t* items) {
  __shared__ std::int32_t tile[kTile];
  const int here = load_tile(chosen, choices, false, tile);
  const int own = static_cast<int>(thread_x());
  if (own >= here) return;
  const std::int64_t choice = static_cast<std::int64_t>(block_x()) * kTile + own;
  const std::int32_t expert = tile[own];
  std::int32_t place = -1;
  if (expert >= 0) {
    place = starts[expert] + before[static_cast<std::int64_t>(expert) * grid_x() + block_x()];
    for (int i = 0; i < own; ++i) place += tile[i] == expert ? 1 : 0;
    items[place] = static_cast<std::int32_t>(of_item.quotient(static_cast<unsigned>(choice)));
  }
  places[choice] = place;
}

/// Weights of the rows, in the CPU's order of operations: a capacity compares them.
__global__ void __launch_bounds__(256)
    weights_kernel(View<const float> logits, std::int64_t tokens, RouterNumbers router, unsigned bytes,
                   const std::int32_t* chosen, const std::int32_t* places, float* weights) {
  const int lane = static_cast<int>(thread_x() % 32);
  auto* scores = reinterpret_cast<float*>(dynamic_shared() + thread_x() / 32 * bytes);
  const bool of_all = !router.sigmoid && !router.normalized;
  for (std::int64_t first = first_token_of_block(); first < tokens; first += tokens_of_round()) {
    const TokenRound at = token_round(first, tokens);
    const float* row = logits.row(at.token);
    const std::int32_t* mine = chosen + at.token * router.top_k;
    const float highest = router.sigmoid ? 0 : largest_of(row, router.experts, lane);
    for (int i = lane; of_all && i < router.experts; i += 32) scores[i] = expf(row[i] - highest);
    sync_block();
    const auto score = [&](int j) {
      const float logit = row[expert_of(mine[j])];
      return router.sigmoid ? sigmoid(logit) : expf(logit - highest);
    };
    float factor = router.scale;
    if (of_all) factor /= sum_in_order(scores, router.experts);
    if (router.normalized) {
      float sum = router.sigmoid ? kLeastSum : 0;
      for (int j = 0; j < router.top_k; ++j) sum += score(j);
      factor /= sum;
    }
    for (int j = lane; at.live && j < router.top_k; j += 32) {
      const std::int32_t place = places[at.token * router.top_k + j];
      if (place >= 0) weights[place] = factor * score(j);
    }
    sync_block();  // the next round's scores take the place of these
  }
}

/// Marks the choices beyond an expert's first `capacity`, in the order of weights (ties in the order of
/// rows), or without weights in the order of rows. order: the choice of every row.
__global__ void __launch_bounds__(256)
    drop_kernel(const std::int32_t* order, const float* weights, const std::int32_t* starts,
                std::int64_t choices, std::int32_t capacity, std::int32_t* chosen) {
  const std::int64_t own = static_cast<std::int64_t>(block_x()) * block_threads() + thread_x();
  if (own >= choices) return;
  const std::int32_t choice = order[own];
  const std::int32_t expert = chosen[choice];  // nobody else marks it
  const std::int64_t start = starts[expert];
  const std::int64_t end = starts[expert + 1];
  if (end - start <= capacity) return;
  std::int64_t rank = own - start;
  if (weights != nullptr) {
    // NaN comes last, so that exactly as many stay.
    const auto value = [&](std::int64_t i) { return weights[i] >= 0 ? weights[i] : -1.0F; };
    const float weight = value(own);
    rank = 0;
    for (std::int64_t i = start; i < end; ++i)
      rank += value(i) > weight || (value(i) == weight && i < own) ? 1 : 0;
  }
  if (rank >= capacity) chosen[choice] = -1 - expert;
}

/// Rows of an expert, as starts_kernel has them.
struct RowsOfExpert {
  std::int64_t rows = 0;
  std::int64_t multiple = 1;
};

void place(const Queue& queue, Matrix chosen, std::int64_t experts, RowsOfExpert of_expert,
           std::int64_t of_item, const RowScratch& scratch, std::int32_t* places, std::int32_t* items) {
  launch(queue, {.threads = 32}, starts_kernel, scratch.counts, static_cast<int>(experts),
         static_cast<std::int32_t>(of_expert.rows), static_cast<std::int32_t>(of_expert.multiple),
         scratch.starts);
  launch(queue, {.x = static_cast<unsigned>(tiles_of(chosen.cols)), .threads = kTile}, place_kernel,
         chosen.as<const std::int32_t>(), chosen.cols, scratch.starts, scratch.before,
         FastDivide(static_cast<unsigned>(of_item)), places, items);
}

void weigh(const Queue& queue, const Router& router, Matrix logits, Matrix chosen, const std::int32_t* places,
           float* weights) {
  const std::size_t bytes = (static_cast<std::size_t>(logits.cols) * sizeof(float) + 15) / 16 * 16;
  launch(queue, grid_of_tokens(queue, logits.rows, bytes), weights_kernel, View<const float>(logits),
         logits.rows, numbers_of(router, logits), static_cast<unsigned>(bytes),
         chosen.as<const std::int32_t>(), places, weights);
}

}  // namespace

std::int64_t routing_scratch(const Router& router, std::int64_t tokens, std::int64_t experts) {
  const std::int64_t choices = tokens * router.top_k;
  return experts * (tiles_of(choices) + 2) + 1 + (router.capacity > 0 ? 3 * choices : 0);
}

void count_choices(const Queue& queue, Matrix chosen, std::int64_t experts, bool dropped,
                   std::int32_t* scratch) {
  const RowScratch at(scratch, chosen.cols, experts);
  const std::int64_t tiles = tiles_of(chosen.cols);
  launch(queue, {.x = static_cast<unsigned>(tiles), .threads = kTile}, count_kernel,
         chosen.as<const std::int32_t>(), chosen.cols, static_cast<int>(experts), dropped, at.before);
  launch(queue, {.x = static_cast<unsigned>(experts), .threads = 32}, scan_kernel, at.before, tiles,
         at.counts);
}

void drop_choices(const Queue& queue, const Router& router, Matrix logits, Matrix chosen,
                  std::int32_t* scratch) {
  const RowScratch at(scratch, chosen.cols, logits.cols);
  place(queue, chosen, logits.cols, {}, 1, at, at.places, at.order);
  if (!router.by_position) weigh(queue, router, logits, chosen, at.places, at.weights);
  launch(queue, {.x = static_cast<unsigned>((chosen.cols + 255) / 256), .threads = 256}, drop_kernel,
         at.order, router.by_position ? nullptr : at.weights, at.starts, chosen.cols,
         static_cast<std::int32_t>(router.capacity), chosen.as<std::int32_t>());
}

void arrange(const Queue& queue, const Router& router, Matrix logits, Matrix chosen, Matrix places,
             Matrix tokens, Matrix weights, std::int32_t* scratch) {
  if (router.capacity > 0 || router.multiple > 1) {  // rows without a token pad experts
    fill(queue, tokens, 0);
    fill(queue, weights, 0);
  }
  count_choices(queue, chosen, logits.cols, false, scratch);
  const RowsOfExpert of_expert{router.padded ? router.rows_of(router.capacity) : 0, router.multiple};
  place(queue, chosen, logits.cols, of_expert, router.top_k, RowScratch(scratch, chosen.cols, logits.cols),
        places.as<std::int32_t>(), tokens.as<std::int32_t>());
  weigh(queue, router, logits, chosen, places.as<const std::int32_t>(), weights.as<float>());
}

}  // namespace plumbline::cuda
