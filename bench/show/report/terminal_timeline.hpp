// A trace as a few lines of text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/trace/trace.hpp"
#include "core/trace/trace_files.hpp"

namespace plumbline {

struct TimelineStyle {
  int width = 0;  // columns; 0: 100, at least 40
  bool color = false;
  bool unit_times = false;  // the times of the trace are multiples of f, not seconds
};

/// One line per rank, time to the right. "F3----" is the forward of micro-batch 3, a dot is idle time, small
/// letters are later model chunks of the rank. At the end of a line the rank's idle share of the pipeline's
/// part of the step; below, the times and a legend. Each column shows the action that takes most of its time.
std::string terminal_timeline(const Schedule& schedule, const Trace& trace, const TimelineStyle& style);

/// Several traces of one schedule, one below the other on one time axis.
std::string terminal_timeline(const Schedule& schedule, const std::vector<NamedTrace>& traces,
                              const TimelineStyle& style);

}  // namespace plumbline
