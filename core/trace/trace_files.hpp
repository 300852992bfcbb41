// A Trace as a picture and as a file for trace viewers; predicted and measured traces alike.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/tensor/arena.hpp"
#include "core/trace/lane_span.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// An SVG grid: one row per rank, time to the right, each action a box with its micro-batch; colour shows the
/// kind of action, shade the model chunk. Transfers are left out. The title has the bubble. `unit_times`: the
/// axis counts forwards ("f"), not seconds.
std::string to_svg(const Schedule& schedule, const Trace& trace, bool unit_times = false);

/// Chrome's trace event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open. One track per rank,
/// one slice per action with its stage, micro-batch and kind. Messages have a track of their own, and an
/// arrow from each to the action that uses it. `distributedInfo` as in PyTorch's traces, its ranks being
/// pipeline ranks.
std::string to_trace_json(const Schedule& schedule, const Trace& trace);

struct NamedTrace {
  std::string name;  // "predicted", "measured"
  const Trace& trace;
  /// One sample per event of every rank, or nothing.
  const std::vector<std::vector<MemorySample>>* memory = nullptr;
  /// The collectives of every rank on the lanes of their groups, its copies on the host's, or nothing.
  const std::vector<std::vector<LaneSpan>>* lanes = nullptr;
};
/// The traces below each other on one time axis, each under its name, step time and bubble.
std::string to_svg(const Schedule& schedule, const std::vector<NamedTrace>& traces);
/// Several traces of one schedule in one file, one process each, on one time axis. Memory becomes one counter
/// track per rank, bytes by category: an action's peak from its begin on, the remaining memory from its end
/// on. Every group of `lanes` becomes a track, with a nested slice (category `exposed`) where the rank waits.
std::string to_trace_json(const Schedule& schedule, const std::vector<NamedTrace>& traces);

}  // namespace plumbline
