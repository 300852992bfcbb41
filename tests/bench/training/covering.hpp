// A small selection of combinations in which every two settings meet.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace plumbline {

/// One combination: the choice in each of eight columns, two given ones first.
using Row = std::array<std::size_t, 8>;

/// One row for each of `given` (the first two columns), with choices of the other columns, of which there are
/// `choices`. Each row holds as many pairs as possible that no earlier row holds (greedy pairwise covering).
inline std::vector<Row> covering_rows(const std::vector<std::pair<std::size_t, std::size_t>>& given,
                                      const std::vector<std::size_t>& choices,
                                      const std::function<bool(const Row&)>& allowed) {
  std::size_t most = 0;  // choices of a column
  for (const std::size_t count : choices) most = std::max(most, count);
  for (const auto& [first, second] : given) most = std::max({most, first + 1, second + 1});
  const std::size_t columns = Row{}.size();
  std::vector<char> covered(columns * most * columns * most, 0);
  // Tests are compiled without optimisation, and this is their innermost loop: plain arrays.
  const auto for_pairs = [&](const Row& row, auto use) {
    const std::size_t* const chosen = row.data();
    char* const pairs = covered.data();
    for (std::size_t a = 0; a < columns; ++a) {
      for (std::size_t b = a + 1; b < columns; ++b) {
        use(pairs[((a * most + chosen[a]) * columns + b) * most + chosen[b]]);
      }
    }
  };
  std::vector<Row> candidates(1, Row{});
  for (std::size_t column = 0; column < choices.size(); ++column) {
    std::vector<Row> wider;
    for (Row row : candidates) {
      for (row[column + 2] = 0; row[column + 2] < choices[column]; ++row[column + 2]) wider.push_back(row);
    }
    candidates = std::move(wider);
  }
  std::vector<Row> rows;
  for (const auto& [first, second] : given) {
    Row best{};
    std::ptrdiff_t best_new = -1;
    for (Row row : candidates) {
      row[0] = first;
      row[1] = second;
      std::ptrdiff_t fresh = 0;
      for_pairs(row, [&](char pair) { fresh += pair == 0 ? 1 : 0; });
      if (fresh <= best_new || !allowed(row)) continue;  // asked last: it is expensive
      best = row;
      best_new = fresh;
    }
    if (best_new < 0) continue;
    for_pairs(best, [&](char& pair) { pair = 1; });
    rows.push_back(best);
  }
  return rows;
}

}  // namespace plumbline
