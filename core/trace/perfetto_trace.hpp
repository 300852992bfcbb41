// A Trace as a Perfetto trace file (TrackEvent protobuf), which ui.perfetto.dev opens.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/trace/trace_files.hpp"

namespace plumbline {

/// All traces in one file on one time axis. Each trace is a process, each rank a track with its actions, with
/// messages on tracks of their own below it. An arrow for every message, and a counter of bytes for every
/// rank and category that is ever used. Format: perfetto/protos/perfetto/trace/track_event/track_event.proto.
std::string to_perfetto(const Schedule& schedule, const std::vector<NamedTrace>& traces);

}  // namespace plumbline
