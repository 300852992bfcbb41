// Noise that all cells of a folder share, such as the machine's state, apart from that of each cell.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/show/history/noise_prior.hpp"

namespace plumbline {

/// Values of a level and their folders.
struct Level {
  std::vector<double> values;
  std::vector<std::size_t> folders;
};

/// A series of logarithms and the folders at which new levels begin, in order.
struct LevelSeries {
  std::vector<double> values;  // by folder; NaN: missing
  std::vector<std::size_t> begins;

  std::vector<Level> levels() const;
};

/// Noise of single values by the differences of neighbours of a level, which an unknown step hardly moves.
/// Differences share values: the degrees of freedom are those of a chi-squared of the same mean and variance.
Squares neighbour_noise(const std::vector<Level>& levels);

struct CommonPart {
  LevelSeries common;             // missing with fewer than three cells, which do not tell whose noise it is
  std::vector<LevelSeries> rest;  // of each cell
};

/// Common part of a folder: the median over cells of values relative to their levels (a median polish). A
/// cell's rest is without the median of the other cells, times the share of its variance that independent
/// noise does not explain.
CommonPart common_part(const std::vector<LevelSeries>& cells, const std::vector<std::size_t>& common_begins);

/// Smallest variance of logarithms, 1e-8: clocks and schedulers are not better.
double least_variance();

}  // namespace plumbline
