// The time of one step on one rank, by category.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/diagnose/slice_share.hpp"
#include "analysis/diagnose/step_windows.hpp"
#include "analysis/diagnose/time_share.hpp"
#include "analysis/diagnose/traced_operators.hpp"
#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

/// Time in which the host runs no operator while the step waits for it, by the operator before.
struct HostGap {
  std::string after;
  std::int64_t count = 0;
  double seconds = 0;
};

/// One collective or message of the step. Times in nanoseconds on the rank's clock.
struct TracedCall {
  std::string key;  // group and kind; the same on every member
  std::int64_t begin = 0;
  std::int64_t end = 0;
  TimeShare share = TimeShare::data;
};

struct TimeSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct RankBreakdown {
  std::string origin;
  int rank = 0;
  StepWindow step;
  SharedTime time;             // its sum is the step
  double communication_s = 0;  // exposed and hidden
  double hidden_communication_s = 0;
  double synchronisation_s = 0;  // part of the waits for the host in calls that wait for the device
  std::int64_t synchronisations = 0;
  double launching_s = 0;          // part in which the host executes operators and launches kernels
  double outside_operators_s = 0;  // part of the waits for the host without an operator on the host
  bool has_device = false;
  std::vector<TracedOperator> operators;  // the longest first
  std::vector<HostGap> gaps;              // the longest first
  std::vector<TracedCall> collectives;    // in order of begin
  std::vector<TimeSpan> exposed;          // communication that nothing hides, in order of time
};

/// Every nanosecond of the step in one category. With a device: what its streams do, products before
/// communication, then what the host does. Without one: what the threads of the host do.
RankBreakdown break_down(const ProfileTrace& trace, const StepWindow& step, const GroupSizes& sizes);

}  // namespace plumbline
