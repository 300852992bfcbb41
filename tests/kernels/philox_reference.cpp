#include "tests/kernels/philox_reference.hpp"

#include <cmath>
#include <utility>

namespace plumbline::test {

std::array<std::uint32_t, 4> philox_reference(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right & 0xffffffffU),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left & 0xffffffffU)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

bool stays(const Dropout& dropout, std::int64_t row, std::int64_t column, std::int64_t head) {
  const auto global_row = static_cast<std::uint64_t>(dropout.first_row) + static_cast<std::uint64_t>(row);
  const auto words = philox_reference({static_cast<std::uint32_t>(column / 4),
                                       static_cast<std::uint32_t>(global_row % (std::uint64_t{1} << 32)),
                                       dropout.site, static_cast<std::uint32_t>(head)},
                                      {dropout.seed, dropout.step});
  return words[static_cast<std::size_t>(column % 4)] >= std::floor(std::ldexp(dropout.probability, 32));
}

Dropout random_dropout(double probability) {
  const auto word = [] { return static_cast<std::uint32_t>(random_engine()()); };
  const std::int64_t rows[] = {0, random_integer(0, 1 << 20), (std::int64_t{1} << 32) - 2};
  return {probability, word(), word(), word(), rows[random_integer(0, 2)]};
}

}  // namespace plumbline::test
