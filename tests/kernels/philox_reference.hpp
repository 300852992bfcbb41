// Elements that dropout drops, written out once more: Philox4x32-10 as Salmon et al. (SC'11, section 3)
// define it, and the rule of bench/training/dropout.md.
#pragma once

#include <array>

#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {

/// Ten rounds: multiply two of the four words, exchange halves, mix the key in.
std::array<std::uint32_t, 4> philox_reference(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key);

/// The element of token row `row` of the matrix is kept.
bool stays(const Dropout& dropout, std::int64_t row, std::int64_t column, std::int64_t head);

/// Random numbers for everything but the probability. The rows are counted beyond 2³² now and then.
Dropout random_dropout(double probability);

}  // namespace plumbline::test
