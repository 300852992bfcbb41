#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/output_json.hpp"
#include "core/trace/trace_files.hpp"
#include "core/trace/trace_lanes.hpp"

namespace plumbline {

namespace {

void append_counter(std::string& text, std::size_t process, std::size_t rank, Seconds moment,
                    const MemoryBreakdown& memory) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, ",\n{{\"ph\":\"C\",\"pid\":{},\"name\":\"memory of rank {}\",\"ts\":{:.3f},\"args\":{{",
                 process, rank, moment.value * 1e6);
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    fmt::format_to(out, "{}\"{}\":{}", i == 0 ? "" : ",", name_of(category), memory[category].value);
  }
  text += "}}";
}

constexpr std::size_t kLanesInOrder = 64;  // tracks of a rank that stand together, in their order

/// Threads of a process: lane 0 of every rank has the rank's number.
std::size_t thread_of(std::size_t rank, int lane) {
  constexpr std::size_t kLane = 1'000'000;
  return rank + static_cast<std::size_t>(lane) * kLane;
}

/// The name of a track and its place among all of the process.
void append_thread(std::string& text, std::size_t process, std::size_t thread, const std::string& name,
                   std::size_t order) {
  fmt::format_to(std::back_inserter(text),
                 ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\",\"args\":{{\"name\":"
                 "\"{2}\"}}}},\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":"
                 "\"thread_sort_index\",\"args\":{{\"sort_index\":{3}}}}}",
                 process, thread, name, order);
}

void append_slice(std::string& text, std::size_t process, std::size_t thread, Seconds start, Seconds end,
                  std::string_view name, std::string_view category, const std::string& args) {
  fmt::format_to(std::back_inserter(text),
                 ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":\"{}\","
                 "\"cat\":\"{}\",\"args\":{{{}}}}}",
                 process, thread, start.value * 1e6, (end - start).value * 1e6, name, category, args);
}

/// The collectives of vocabulary parallelism on one rank; exposed time is a nested slice.
void append_collectives(std::string& text, std::size_t process, std::size_t rank, int first_lane,
                        const std::vector<CollectiveEvent>& events) {
  const CollectiveLanes lanes = lanes_of(events);
  for (std::size_t lane = 0; lane < lanes.call_of_lane.size(); ++lane) {
    const int place = first_lane + static_cast<int>(lane);
    append_thread(text, process, thread_of(rank, place),
                  fmt::format("rank {} {}", rank, name_of(lanes.call_of_lane[lane])),
                  rank * kLanesInOrder + static_cast<std::size_t>(place));
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const CollectiveEvent& event = events[i];
    const std::size_t thread = thread_of(rank, first_lane + lanes.lane_of_event[i]);
    const std::string args =
        fmt::format("\"microbatch\":{},\"waited_us\":{:.3f}", event.microbatch, event.waited.value * 1e6);
    append_slice(text, process, thread, event.start, event.end,
                 fmt::format("{} {}", short_name(event.call), event.microbatch), "collective", args);
    const auto [from, to] = wait_of(event);
    if (to > from) append_slice(text, process, thread, from, to, "exposed wait", "exposed", args);
  }
}

/// The collectives of each group of a rank.
void append_lanes(std::string& text, std::size_t process, std::size_t rank, int first_lane,
                  const std::vector<LaneSpan>& spans) {
  for (const LaneGroup group : groups_of(spans)) {
    const std::size_t thread = thread_of(rank, first_lane);
    append_thread(text, process, thread, fmt::format("rank {} {}", rank, title_of(group)),
                  rank * kLanesInOrder + static_cast<std::size_t>(first_lane));
    for (const LaneSpan& span : spans) {
      if (span.group != group) continue;
      const std::string args = fmt::format("\"waited_us\":{:.3f}", span.waited.value * 1e6);
      append_slice(text, process, thread, span.start, span.end, lane_name(group), kind_of(group), args);
      const auto [from, to] = wait_of(span);
      if (to > from) append_slice(text, process, thread, from, to, "exposed wait", "exposed", args);
    }
    ++first_lane;
  }
}

void append_threads(std::string& text, std::size_t process, std::size_t rank, const RankLanes& lanes) {
  for (int lane = 0; lane < lanes.lanes; ++lane) {
    const char* what = lane >= lanes.first_message_lane ? " messages" : lane > 0 ? " together" : "";
    append_thread(text, process, thread_of(rank, lane), fmt::format("rank {}{}", rank, what),
                  rank * kLanesInOrder + static_cast<std::size_t>(lane));
  }
}

/// An arrow from each message's begin to the action that uses it. Ids are the process's own.
void append_messages(std::string& text, std::size_t process, const Trace& trace,
                     const std::vector<RankLanes>& lanes) {
  const std::vector<Message> messages = messages_of(trace);
  const auto end = [&](const char* phase, std::size_t id, std::size_t rank, std::size_t event) {
    const int lane = lanes[rank].lane_of_event[event];
    fmt::format_to(std::back_inserter(text),
                   ",\n{{\"ph\":\"{}\",\"bp\":\"e\",\"id\":\"{}.{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
                   "\"name\":\"message\",\"cat\":\"message\"}}",
                   phase, process, id, process, thread_of(rank, lane),
                   trace.ranks[rank][event].start.value * 1e6);
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    end("s", i, messages[i].from_rank, messages[i].from_event);
    end("f", i, messages[i].to_rank, messages[i].to_event);
  }
}

void append(std::string& text, const Schedule& schedule, std::size_t process, const NamedTrace& named) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
                 process, output_json(nlohmann::json(named.name), -1));
  std::vector<RankLanes> lanes;
  for (std::size_t rank = 0; rank < named.trace.ranks.size(); ++rank) {
    lanes.push_back(lanes_of(named.trace.ranks[rank]));
    append_threads(text, process, rank, lanes[rank]);
    for (std::size_t i = 0; i < named.trace.ranks[rank].size(); ++i) {
      const Event& event = named.trace.ranks[rank][i];
      append_slice(text, process, thread_of(rank, lanes[rank].lane_of_event[i]), event.start, event.end,
                   to_string(event.action), name_of(event.action.type),
                   fmt::format("\"stage\":{},\"microbatch\":{},\"route\":{}", event.action.stage,
                               event.action.microbatch, event.action.stage / schedule.stages_per_route()));
    }
    if (named.lanes != nullptr && rank < named.lanes->size()) {
      const int collectives =
          rank < named.trace.collectives.size()
              ? static_cast<int>(lanes_of(named.trace.collectives[rank]).call_of_lane.size())
              : 0;
      append_lanes(text, process, rank, lanes[rank].lanes + collectives, (*named.lanes)[rank]);
    }
    if (rank < named.trace.collectives.size())
      append_collectives(text, process, rank, lanes[rank].lanes, named.trace.collectives[rank]);
    if (named.memory == nullptr || rank >= named.memory->size()) continue;
    const std::vector<Event>& events = named.trace.ranks[rank];
    const std::vector<MemorySample>& samples = (*named.memory)[rank];
    for (std::size_t i = 0; i < std::min(events.size(), samples.size()); ++i) {
      append_counter(text, process, rank, events[i].start, samples[i].peak);
      append_counter(text, process, rank, events[i].end, samples[i].after);
    }
  }
  append_messages(text, process, named.trace, lanes);
}

/// The keys of PyTorch's profiler, which analysis tools look for.
std::string distributed_info(int ranks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  const nlohmann::ordered_json group = {
      {"pg_name", "0"}, {"pg_desc", "pipeline"}, {"pg_size", ranks}, {"ranks", std::move(all)}};
  return output_json(nlohmann::ordered_json{{"backend", "plumbline"},
                                            {"rank", 0},
                                            {"world_size", ranks},
                                            {"pg_count", 1},
                                            {"pg_config", {group}}},
                     -1);
}

}  // namespace

std::string to_trace_json(const Schedule& schedule, const std::vector<NamedTrace>& traces) {
  std::string text = fmt::format("{{\"displayTimeUnit\":\"ms\",\"distributedInfo\":{},\"traceEvents\":[\n",
                                 distributed_info(schedule.ranks));
  for (std::size_t process = 0; process < traces.size(); ++process) {
    if (process > 0) text += ",\n";
    append(text, schedule, process, traces[process]);
  }
  text += "\n]}\n";
  return text;
}

std::string to_trace_json(const Schedule& schedule, const Trace& trace) {
  return to_trace_json(schedule, {{"pipeline", trace, nullptr}});
}

}  // namespace plumbline
