#include "bench/show/report/trace_output.hpp"

#include <string_view>

#include "core/trace/perfetto_trace.hpp"

namespace plumbline {

std::string trace_file(const std::string& path, const Schedule& schedule,
                       const std::vector<NamedTrace>& traces) {
  const std::string_view name = path;
  const bool protobuf = name.ends_with(".pftrace") || name.ends_with(".perfetto-trace");
  return protobuf ? to_perfetto(schedule, traces) : to_trace_json(schedule, traces);
}

}  // namespace plumbline
