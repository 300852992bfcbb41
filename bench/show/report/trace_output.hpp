// A trace file in the format that its name asks for.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "core/trace/trace_files.hpp"

namespace plumbline {

/// The contents of a trace file: Perfetto's protobuf when `path` ends in .pftrace or .perfetto-trace,
/// Chrome's JSON otherwise. ui.perfetto.dev opens both; the protobuf is smaller and has counters by category.
std::string trace_file(const std::string& path, const Schedule& schedule,
                       const std::vector<NamedTrace>& traces);

}  // namespace plumbline
