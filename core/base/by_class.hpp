// One number for each class of work of a training step.
#pragma once

namespace plumbline {

/// How many times longer each class takes than what it is compared with (1: as long), or by what share its times vary (0: not
/// at all).
struct ByClass {
  double compute = 0;   // matrix products and attention
  double memory = 0;    // operators that move more than they compute
  double messages = 0;  // messages and collectives
  double host = 0;      // what is between operators
  friend bool operator==(const ByClass&, const ByClass&) = default;
};

struct SpeedClass {
  const char* name;
  double ByClass::*member;
};
inline constexpr SpeedClass kSpeedClasses[] = {{"compute", &ByClass::compute},
                                               {"memory", &ByClass::memory},
                                               {"messages", &ByClass::messages},
                                               {"host", &ByClass::host}};
constexpr ByClass every_class(double value) {
  return {value, value, value, value};
}

}  // namespace plumbline
