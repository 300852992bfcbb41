// One number for each class of work of a training step.
#pragma once

namespace plumbline {

/// How many times longer each class takes than what it is compared with (1: as long), or by what share its times vary (0: not
/// at all).
struct ByClass {
  double compute = 0;    // matrix products and attention, operands in caches
  double memory = 0;     // operators that move more than they compute, operands in caches
  double bandwidth = 0;  // what either takes longer because its operands come from memory
  double messages = 0;   // messages and collectives
  double host = 0;       // what is between operators
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
