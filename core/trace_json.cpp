#include <fmt/format.h>

#include <iterator>
#include <string>

#include "core/trace_files.hpp"

namespace plumbline {

namespace {

void append(std::string& text, const Schedule& schedule, std::size_t process, const NamedTrace& named) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"{}\"}}}}",
                 process, named.name);
  for (std::size_t rank = 0; rank < named.trace.ranks.size(); ++rank) {
    fmt::format_to(out,
                   ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\",\"args\":{{\"name\":"
                   "\"rank {1}\"}}}}",
                   process, rank);
    for (const Event& event : named.trace.ranks[rank]) {
      fmt::format_to(out,
                     ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":\"{}\","
                     "\"cat\":\"{}\","
                     "\"args\":{{\"stage\":{},\"microbatch\":{},\"route\":{}}}}}",
                     process, rank, event.start.value * 1e6, (event.end - event.start).value * 1e6,
                     to_string(event.action), name_of(event.action.type), event.action.stage,
                     event.action.microbatch, event.action.stage / schedule.stages_per_route());
    }
  }
}

}  // namespace

std::string to_trace_json(const Schedule& schedule, const std::vector<NamedTrace>& traces) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t process = 0; process < traces.size(); ++process) {
    if (process > 0) text += ",\n";
    append(text, schedule, process, traces[process]);
  }
  text += "\n]}\n";
  return text;
}

std::string to_trace_json(const Schedule& schedule, const Trace& trace) {
  return to_trace_json(schedule, {{"pipeline", trace}});
}

}  // namespace plumbline
