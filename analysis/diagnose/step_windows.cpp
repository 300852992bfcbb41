#include "analysis/diagnose/step_windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "core/base/error.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";

/// K of "ProfilerStep#K"; nothing for another name.
std::optional<std::int64_t> profiler_step(std::string_view name) {
  if (!name.starts_with(kProfilerStep)) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kProfilerStep.size(), name.data() + name.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

std::vector<StepWindow> by_profiler(const ProfileTrace& trace) {
  std::map<std::int64_t, StepWindow> steps;
  for (const TracedSlice& slice : trace.slices) {
    if (slice.kind != SliceKind::annotation && slice.kind != SliceKind::op) continue;
    const std::optional<std::int64_t> number = profiler_step(trace.name(slice));
    if (number && slice.end > slice.begin)
      steps.emplace(*number, StepWindow{*number, slice.begin, slice.end});
  }
  std::vector<StepWindow> windows;
  for (const auto& [number, window] : steps) {
    if (windows.empty() || window.begin >= windows.back().end) windows.push_back(window);
  }
  // Time between two annotations belongs to the step before.
  for (std::size_t i = 0; i + 1 < windows.size(); ++i) {
    if (windows[i + 1].number == windows[i].number + 1) windows[i].end = windows[i + 1].begin;
  }
  return windows;
}

std::vector<StepWindow> by_optimizer(const ProfileTrace& trace) {
  std::vector<StepWindow> windows;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const TracedSlice& slice : trace.slices) {
    const bool host = slice.kind == SliceKind::annotation || slice.kind == SliceKind::op;
    if (!host || !trace.name(slice).starts_with("Optimizer.step#") || slice.end <= last) continue;
    if (last != std::numeric_limits<std::int64_t>::min())
      windows.push_back({static_cast<std::int64_t>(windows.size()), last, slice.end});
    last = slice.end;
  }
  return windows;
}

std::int64_t last_end(const ProfileTrace& trace, bool device_only) {
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const TracedSlice& slice : trace.slices) {
    if (!device_only || on_device(slice.kind)) end = std::max(end, slice.end);
  }
  return end;
}

}  // namespace

StepWindows steps_of(const ProfileTrace& trace) {
  StepWindows found{by_profiler(trace), "profiler steps"};
  if (!found.steps.empty()) {
    found.steps.back().end = std::max(found.steps.back().end, last_end(trace, true));
    return found;
  }
  found = {by_optimizer(trace), "optimizer steps"};
  if (!found.steps.empty()) return found;
  if (trace.own_end > 0) return {{{0, 0, trace.own_end}}, "one step a trace"};
  const std::int64_t begin = trace.slices.front().begin;
  return {{{0, begin, std::max(begin + 1, last_end(trace, false))}}, "whole trace"};
}

std::optional<StepWindow> window_of(const StepWindows& steps, std::int64_t number) {
  const auto found = std::find_if(steps.steps.begin(), steps.steps.end(),
                                  [number](const StepWindow& step) { return step.number == number; });
  if (found == steps.steps.end()) return std::nullopt;
  return *found;
}

std::vector<StepWindow> common_steps(const std::vector<StepWindows>& ranks) {
  std::vector<StepWindow> common;
  for (const StepWindow& step : ranks.front().steps) {
    const bool everywhere = std::all_of(ranks.begin(), ranks.end(), [&](const StepWindows& rank) {
      return window_of(rank, step.number).has_value();
    });
    if (everywhere) common.push_back(step);
  }
  if (common.empty()) {
    throw InputError(
        "diagnose: found traces without a common step, expected those of one run; leave the others out");
  }
  return common;
}

std::vector<StepWindow> steady_steps(std::vector<StepWindow> steps) {
  if (steps.size() > 3) steps.pop_back();
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

std::int64_t median_step(const std::vector<StepWindow>& steps) {
  std::vector<double> seconds;
  seconds.reserve(steps.size());
  for (const StepWindow& step : steps) seconds.push_back(step.seconds());
  return steps[lower_median_index(seconds)].number;
}

}  // namespace plumbline
