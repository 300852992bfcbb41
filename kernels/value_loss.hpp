// Loss of one token of a critic and its derivative, for every backend.
#pragma once

#include "kernels/host_device.hpp"

namespace plumbline {

struct ValueLoss {
  double loss;
  double slope;  // by the value
};

/// Rows of Operators::value_loss for one token: `old`, `goal` and `weight` are rows 0, 2 and 3 of the tokens.
PLUMBLINE_HOST_DEVICE inline ValueLoss value_loss_of(double value, double old, double goal, double weight,
                                                     double clip) {
  double clipped = value;
  if (clipped < old - clip) clipped = old - clip;
  if (clipped > old + clip) clipped = old + clip;
  const double error = value - goal;
  const double clipped_error = clipped - goal;
  const bool free = error * error >= clipped_error * clipped_error;  // the larger one is not clipped
  const double counted = free ? error : clipped_error;
  return {weight * counted * counted / 2, free ? weight * error : 0};
}

}  // namespace plumbline
