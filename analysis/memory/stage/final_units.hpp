// Which gradients are complete after an action.
#pragma once

namespace plumbline {

/// The units of a stage whose gradient is complete after an action: no later one of the step adds to it.
struct FinalUnits {
  bool embedding = false;
  bool positions = false;
  bool layers = false;
  bool output = false;  // the output layer, or the embedding that stands for it
  bool lookup = false;  // what modules that predict further tokens look up
};

}  // namespace plumbline
