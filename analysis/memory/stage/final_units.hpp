// Gradients that are complete after an action.
#pragma once

namespace plumbline {

/// The units of a stage whose gradient is complete after an action: no later one of the step adds to it.
struct FinalUnits {
  bool embedding = false;
  bool positions = false;
  bool layers = false;
  bool output = false;  // the output layer, or the tied embedding
  bool lookup = false;  // lookups of MTP modules
};

}  // namespace plumbline
