// One published figure alongside what the model predicts for it.
#pragma once

#include <string>

#include "analysis/published/dialect/table_header.hpp"

namespace plumbline::cluster {

/// What rows are grouped by.
struct RunTraits {
  std::string source;
  std::string hardware;
  std::string software;
  std::string precision;
  std::string parallelism;  // what is more than 1: "tp pp"
  int tensor = 1;           // tensor-parallel ranks
  bool mixture = false;     // of experts
  Cells settings{};         // of its row, with its header's defaults
};

struct ComparedRow {
  std::string label;
  std::string quantity;  // step_s, peak_bytes, layer_s, ...
  double predicted = 0;
  double published = 0;
  std::string sweep;   // rows of one sweep train the same model with the same batch on as many GPUs
  RunTraits traits{};  // of a training run
  double error() const { return predicted / published - 1; }
};

}  // namespace plumbline::cluster
