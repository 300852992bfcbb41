// One published figure and its prediction.
#pragma once

#include <string>

#include "analysis/published/dialect/table_header.hpp"

namespace plumbline {

/// Traits that rows are grouped by.
struct RunTraits {
  std::string source;
  std::string hardware;
  std::string software;
  std::string precision;
  std::string parallelism;  // sizes above 1: "tp pp"
  int tensor = 1;           // tensor-parallel ranks
  bool mixture = false;     // of experts
  Cells settings{};         // of its row, with its header's defaults
};

struct ComparedRow {
  std::string label;
  std::string quantity;  // step_s, peak_bytes, layer_s, ...
  double predicted = 0;
  double published = 0;
  std::string sweep;   // rows of one sweep train the same model with the same batch on equally many GPUs
  RunTraits traits{};  // of a training run
  double error() const { return predicted / published - 1; }
};

}  // namespace plumbline
