// The timed steps of a cell, one by one, and how undisturbed they were.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// One timed step. Shares are of 1; unknown ones are NaN.
struct StepReport {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Seconds time;
  double others = kUnknown;  // of the machine's processors, used by other programs
  double stolen = kUnknown;  // of them, given to other machines by the hypervisor
  double waited =
      kUnknown;  // of the ranks' time, waiting for a processor; not known with more ranks than those
  double involuntary = kUnknown;  // times that ranks lost their processor
  double frequency = kUnknown;    // Hz, mean of the ranks' processors
  /// By equally long parts and ranks, as in core/run/step_load.hpp; not stored.
  std::vector<std::vector<double>> lost = {};
};

/// Over all timed steps, by their length.
struct DisturbanceReport {
  double others = StepReport::kUnknown;
  double stolen = StepReport::kUnknown;
  double waited = StepReport::kUnknown;
  bool disturbed = false;  // one of them is above kDisturbed, and not for a counter's tick
  int repeats = 0;         // times that the cell was measured again because of that
};
constexpr double kDisturbed = 0.05;

/// `processors`: of the machine. Steps before clip_shares, whose shares may be below zero where a counter's
/// ticks are longer than the step: only their mean is right.
DisturbanceReport disturbance_of(const std::vector<StepReport>& steps, int processors);
/// Sets shares below zero to zero, for people and programs to read.
void clip_shares(std::vector<StepReport>& steps);
/// The largest share of others, stolen and waited that is known; 0 without any.
double worst_share(const DisturbanceReport& disturbance);
/// "others used 12 % of the processors, …", for shares above kDisturbed.
std::string what_disturbed(const DisturbanceReport& disturbance);

struct StepInterval {
  Seconds low, high;
};
/// 95 % confidence interval of the median step: by the order of the steps (the binomial distribution), from 6
/// steps on. With fewer, from the shortest to the longest. Throws Error without steps.
StepInterval interval_of(const std::vector<StepReport>& steps);

}  // namespace plumbline
