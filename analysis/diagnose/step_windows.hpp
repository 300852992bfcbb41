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

/// By the profiler's annotations, else from one end of the optimizer to the next, else all of the trace as
/// one step. The last step ends with its last kernel.
StepWindows steps_of(const ProfileTrace& trace);

/// The step of that number; without one, the step of median time, the first and last left out where there
/// are others: profilers start and stop in them. Throws InputError for a number that no rank's trace has.
std::int64_t chosen_step(const std::vector<StepWindows>& ranks, std::optional<std::int64_t> number);
/// The window of that number, or nothing.
std::optional<StepWindow> window_of(const StepWindows& steps, std::int64_t number);

}  // namespace plumbline
