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

/// Sum and number of squared differences between neighbours of one level. They hold no step, are hardly moved by
/// one that is not known yet, and share values, which lessens their degrees of freedom.
class NeighbourNoise {
 public:
  void add(const std::vector<double>& values);
  void add(const std::vector<Level>& levels);
  /// The variance of single values.
  Squares noise() const;

 private:
  double sum_ = 0;
  double count_ = 0;
  double squared_weights_ = 0;  // trace of the squared matrix of the quadratic form
};

struct CommonPart {
  LevelSeries common;             // missing with fewer than three cells, which do not tell whose noise it is
  std::vector<LevelSeries> rest;  // of each cell
};

/// Common part of a folder: median over cells of values relative to their levels (a median polish). A cell's
/// rest is without the median of the other cells, multiplied by the share of its variance that their own noise
/// does not explain.
CommonPart common_part(const std::vector<LevelSeries>& cells, const std::vector<std::size_t>& common_begins);

/// Smallest variance of logarithms, 1e-8: clocks and schedulers are not better.
double least_variance();

}  // namespace plumbline
