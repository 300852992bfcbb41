// One published figure alongside what the model predicts for it.
#pragma once

#include <string>

namespace plumbline::cluster {

struct ComparedRow {
  std::string label;
  std::string quantity;  // step_s, peak_bytes, layer_s, ...
  double predicted = 0;
  double published = 0;
  std::string sweep;  // rows of one sweep train the same model with the same batch on as many GPUs
  double error() const { return predicted / published - 1; }
};

}  // namespace plumbline::cluster
