// One number for each class of work of a training step.
#pragma once

namespace plumbline {

/// Slowdown factor of each class relative to a reference (1: equally fast), or the relative variation of its
/// times (0: none).
struct ByClass {
  double compute = 0;    // matrix products and attention, operands in caches
  double memory = 0;     // operators that move more than they compute, operands in caches
  double bandwidth = 0;  // extra time of either because operands come from memory
  double messages = 0;   // messages and collectives
  double host = 0;       // time between operators
  friend bool operator==(const ByClass&, const ByClass&) = default;
};

struct SpeedClass {
  const char* name;
  double ByClass::*member;
};
inline constexpr SpeedClass kSpeedClasses[] = {{"compute", &ByClass::compute},
                                               {"memory", &ByClass::memory},
                                               {"bandwidth", &ByClass::bandwidth},
                                               {"messages", &ByClass::messages},
                                               {"host", &ByClass::host}};
constexpr ByClass every_class(double value) {
  return {value, value, value, value, value};
}

}  // namespace plumbline
