// The timed steps of a cell, one by one, and how undisturbed they were.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_keys.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// One timed step. Shares are of 1; what is not known is NaN.
struct StepReport {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Seconds time;
  double others = kUnknown;  // of the machine's processors, used by other programs
  double stolen = kUnknown;  // of them, given to other machines by the hypervisor
  double waited =
      kUnknown;  // of the ranks' time, waiting for a processor; not known with more ranks than those
  double involuntary = kUnknown;  // times that ranks lost their processor
  double frequency = kUnknown;    // Hz, mean of the ranks' processors
  /// By equally long parts and ranks, as core/run/step_load.hpp says; not stored.
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

/// `processors`: of the machine. Shares of steps may be below zero, where a counter's ticks are longer than they: before
/// clip_shares, since only as they are their mean is right.
DisturbanceReport disturbance_of(const std::vector<StepReport>& steps, int processors);
/// What is below zero becomes zero, for people and programs to read.
void clip_shares(std::vector<StepReport>& steps);
/// The largest share of others, stolen and waited that is known; 0 without any.
double worst_share(const DisturbanceReport& disturbance);
/// "others used 12 % of the processors, …", of what is above kDisturbed.
std::string what_disturbed(const DisturbanceReport& disturbance);

struct StepInterval {
  Seconds low, high;
};
/// In which the median of steps like these lies 19 times of 20: by the order of the steps (the binomial distribution), from 6
/// steps on; of fewer, from the shortest to the longest. Throws Error without steps.
StepInterval interval_of(const std::vector<StepReport>& steps);

OrderedJson to_json(const StepInterval& interval);
/// What `keys` has under "step_interval_s"; nothing without.
std::optional<StepInterval> step_interval_of(const OrderedJsonKeys& keys);
OrderedJson to_json(const std::vector<StepReport>& steps);
OrderedJson to_json(const DisturbanceReport& disturbance);
/// What `keys` has under "steps", or nothing; throws InputError as parse_record does.
std::vector<StepReport> steps_of(const OrderedJsonKeys& keys);
DisturbanceReport disturbance_of(const OrderedJsonKeys& keys);

}  // namespace plumbline
