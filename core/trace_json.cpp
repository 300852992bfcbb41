#include <fmt/format.h>

#include <iterator>
#include <string>

#include "core/trace_files.hpp"

namespace plumbline {

std::string to_trace_json(const Schedule& schedule, const Trace& trace) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "{{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{{\"name\":\"pipeline\"}}}}");
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    fmt::format_to(out,
                   ",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{0},\"name\":\"thread_name\",\"args\":{{\"name\":"
                   "\"rank {0}\"}}}}",
                   rank);
    for (const Event& event : trace.ranks[rank]) {
      fmt::format_to(out,
                     ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":\"{}\","
                     "\"cat\":\"{}\","
                     "\"args\":{{\"stage\":{},\"microbatch\":{},\"route\":{}}}}}",
                     rank, event.start.value * 1e6, (event.end - event.start).value * 1e6,
                     to_string(event.action), name_of(event.action.type), event.action.stage,
                     event.action.microbatch, event.action.stage / schedule.stages_per_route());
    }
  }
  text += "\n]}\n";
  return text;
}

}  // namespace plumbline
