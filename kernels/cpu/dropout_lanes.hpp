// The masks of many columns at once: counters that differ in one word only, which the compiler turns into
// vector arithmetic.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/cpu/simd.hpp"
#include "kernels/dropout.hpp"

namespace plumbline::cpu {

/// Columns whose mask is drawn at once: four of each of sixteen counters.
constexpr std::int64_t kMaskChunk = 4 * kLanes;

/// mask = 1 where an element stays, 0 where it is dropped, for columns [first, first + kMaskChunk) of a row;
/// `first` is a multiple of four.
PLUMBLINE_INLINE void draw_mask(const Dropout& dropout, std::int64_t first, std::int64_t row,
                                std::uint32_t head, std::uint8_t* mask) {
  static_assert(std::endian::native == std::endian::little, "the mask of four columns is one word");
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const auto block = static_cast<std::uint32_t>(first / 4);
  std::uint32_t packed[kLanes];
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    const DropoutWords numbers = dropout_words(dropout, block + i, row, head);
    packed[i] = (numbers.word[0] >= threshold ? 1U : 0U) | (numbers.word[1] >= threshold ? 1U << 8 : 0U) |
                (numbers.word[2] >= threshold ? 1U << 16 : 0U) |
                (numbers.word[3] >= threshold ? 1U << 24 : 0U);
  }
  std::memcpy(mask, packed, sizeof packed);
}

/// `v` under a mask: zero where the mask is 0, whatever was there.
PLUMBLINE_INLINE Lanes masked(Lanes v, const std::uint8_t* mask, All /*part*/) {
  LaneBits stays;
  for (int i = 0; i < kLanes; ++i) stays[i] = mask[i];  // becomes one widening load
  return (Lanes)((LaneBits)v & (0U - stays));
}
PLUMBLINE_INLINE Lanes masked(Lanes v, const std::uint8_t* mask, First part) {
  std::uint8_t buffer[kLanes] = {};
  std::memcpy(buffer, mask, static_cast<std::size_t>(part.count));
  return masked(v, buffer, All{});
}

/// The draws of consecutive rows of one head's probabilities; row 0 is token row `first_row` of the matrix,
/// column 0 key `first_key`.
struct DrawnRows {
  const Dropout& dropout;
  std::int64_t first_row;
  std::uint32_t head;
  std::int64_t first_key;
};

/// Calls f(offset, All or First, mask) over the columns [from, to) of row `row`, in steps of sixteen; `mask`
/// starts at the column at the offset.
template <class F>
PLUMBLINE_INLINE void over_masked_row(const DrawnRows& draws, std::int64_t row, std::int64_t from,
                                      std::int64_t to, F&& f) {
  const std::int64_t last = draws.first_key + to;
  for (std::int64_t chunk = (draws.first_key + from) / kMaskChunk * kMaskChunk; chunk < last;
       chunk += kMaskChunk) {
    std::uint8_t mask[kMaskChunk];
    draw_mask(draws.dropout, chunk, draws.first_row + row, draws.head, mask);
    const std::int64_t first = std::max(chunk, draws.first_key + from);
    const std::uint8_t* own = mask + (first - chunk);
    const std::int64_t column = first - draws.first_key;
    for_lanes(std::min(chunk + kMaskChunk, last) - first,
              [&] PLUMBLINE_LANES { f(column + i, part, own + i); });
  }
}
// A lambda body for over_masked_row.
#define PLUMBLINE_MASKED_LANES \
  (std::int64_t i, auto part, const std::uint8_t* mask) __attribute__((always_inline))

}  // namespace plumbline::cpu
