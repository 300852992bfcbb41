// Dropout for every backend, on the host and on a device: the random number that decides about an element
// (bench/training/dropout.md). The generator is counter-based, so nothing is kept between calls and every
// element can be computed alone.
#pragma once

#include <Random123/philox.h>

#include <cstdint>

#include "kernels/host_device.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// The numbers of four neighbouring columns.
struct DropoutWords {
  std::uint32_t word[4];
};

/// Random words for columns [4·column_block, 4·column_block + 4) of token row `row` of the matrix (counted
/// from its own first row): Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11, doi:10.1145/2063384.2063405) with key (seed, step) and counter (column_block, row modulo 2³²,
/// site, head). `head` is 0 for hidden columns and 1 + query head of the model for attention, where a column
/// is a key's position in its sequence.
PLUMBLINE_HOST_DEVICE inline DropoutWords dropout_words(const Dropout& dropout, std::uint32_t column_block,
                                                        std::int64_t row, std::uint32_t head) {
  const philox4x32_ctr_t counter = {
      {column_block, static_cast<std::uint32_t>(dropout.first_row + row), dropout.site, head}};
  const philox4x32_key_t key = {{dropout.seed, dropout.step}};
  const philox4x32_ctr_t bits = philox4x32_R(10, counter, key);
  return {{bits.v[0], bits.v[1], bits.v[2], bits.v[3]}};
}

/// ⌊p·2³²⌋: an element whose word is smaller is dropped. 0 ≤ p < 1.
PLUMBLINE_HOST_DEVICE inline std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

/// Factor of the kept elements, 1/(1 − p).
PLUMBLINE_HOST_DEVICE inline float dropout_scale(double probability) {
  return static_cast<float>(1 / (1 - probability));
}

}  // namespace plumbline
