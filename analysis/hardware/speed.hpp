// How fast and how steady a machine is, by what it does.
#pragma once

#include <cstdint>
#include <string>

namespace plumbline {

/// One number per class of work: how many times longer it takes than what it is compared with (1: as long), or by
/// what share such times vary (0: not at all).
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

/// When and where a profile was calibrated, and how steady the machine was meanwhile.
struct Calibration {
  std::int64_t unix_s = 0;  // when it ended; 0: not known
  double seconds = 0;       // how long it took
  std::string host;
  std::string cpu;
  /// By what share a class as a whole moved between the rounds of calibration: what no number of figures averages out.
  ByClass noise;
  std::int64_t figures = 0;    // measured
  std::int64_t unsettled = 0;  // of them, those that were still apart when the time was up
  bool known() const { return unix_s > 0; }
};

}  // namespace plumbline
