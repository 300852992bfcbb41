// Steps of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

/// Times in nanoseconds on the rank's clock.
struct StepWindow {
  std::int64_t number = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

struct StepWindows {
  std::vector<StepWindow> steps;  // in order of time; never empty
  std::string_view found_by;      // "profiler steps", "optimizer steps", "one step a trace", "whole trace"
};

/// Steps by the profiler's annotations, else from one end of the optimizer to the next, else all of the trace
/// as one step. The last step ends with its last kernel.
StepWindows steps_of(const ProfileTrace& trace);

/// Steps that the traces of all ranks have, by the first rank's clock. Throws InputError without any.
std::vector<StepWindow> common_steps(const std::vector<StepWindows>& ranks);
/// Without the first and the last where there are others: profilers start and stop in them.
std::vector<StepWindow> steady_steps(std::vector<StepWindow> steps);
/// Number of the step of median time.
std::int64_t median_step(const std::vector<StepWindow>& steps);
/// The window of that number, or nothing.
std::optional<StepWindow> window_of(const StepWindows& steps, std::int64_t number);

}  // namespace plumbline
