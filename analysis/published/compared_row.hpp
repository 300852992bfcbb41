// One published figure and its prediction.
#pragma once

#include <string>

#include "analysis/predict/fit.hpp"
#include "analysis/published/dialect/table_header.hpp"
#include "analysis/published/known_runs.hpp"

namespace plumbline {

/// Traits that rows are grouped by.
struct RunTraits {
  std::string source;
  std::string hardware;
  std::string software;
  std::string precision;
  std::string parallelism;  // sizes above 1: "tp pp"
  int tensor = 1;           // tensor-parallel ranks
  RunKind kind{};           // what its error depends on
  Fit fit{};                // the verdict on it
  Cells settings{};         // of its row, with its header's defaults
};

/// The lowest and the highest prediction of a row that leaves settings open; 0: it leaves none open.
struct Spread {
  double low = 0;
  double high = 0;
  /// False if the open settings hardly matter, by less than a percent.
  bool open() const { return low < 0.99 * high; }
};

struct ComparedRow {
  std::string label;
  std::string quantity;  // step_s, peak_bytes, layer_s, ...
  double predicted = 0;
  double published = 0;
  std::string sweep;     // rows of one sweep train the same model with the same batch on equally many GPUs
  RunTraits traits{};    // of a training run
  Spread spread{};       // predictions for the values of settings that the row leaves open
  std::string choice{};  // the values that `predicted` has
  double error() const { return predicted / published - 1; }
  double low() const { return spread.open() ? spread.low : predicted; }
  double high() const { return spread.open() ? spread.high : predicted; }
};

}  // namespace plumbline
