// Timelines to JSON and back.
#include "bench/show/report/timelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule_text/schedule_cells.hpp"

namespace plumbline {
namespace {

constexpr int kTimelineSchema = 1;
constexpr std::size_t kMaxFile = std::size_t{1} << 29;
constexpr std::size_t kMaxRanks = std::size_t{1} << 16;
constexpr int kMaxDepth = 8;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;
constexpr double kMaxSeconds = 1e9;
constexpr std::uint32_t kMaxMicrobatch = 1U << 30;
constexpr const char* kCollectiveTimes[] = {"start_s", "end_s", "waited_from_s", "waited_s"};

Json bytes_of(const std::vector<MemorySample>& samples, MemoryBreakdown MemorySample::*member) {
  Json rows = Json::array();
  for (const MemorySample& sample : samples) {
    Json row = Json::array();
    for (const Bytes bytes : (sample.*member).categories) row.push_back(bytes.value);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json collectives_to_json(const std::vector<CollectiveEvent>& events) {
  Json json = {{"names", Json::array()}};
  for (const char* key : kCollectiveTimes) json[key] = Json::array();
  for (const CollectiveEvent& event : events) {
    json["names"].push_back(fmt::format("{} {}", short_name(event.call), event.microbatch));
    const Seconds times[] = {event.start, event.end, event.waited_from, event.waited};
    for (std::size_t i = 0; i < std::size(times); ++i) json[kCollectiveTimes[i]].push_back(times[i].value);
  }
  return json;
}

constexpr const char* kLaneTimes[] = {"start_s", "end_s", "waited_s"};
constexpr Seconds LaneSpan::*kLaneMembers[] = {&LaneSpan::start, &LaneSpan::end, &LaneSpan::waited};

LaneGroup lane_group(const JsonKeys& keys, const std::string& name, std::size_t i) {
  for (std::size_t place = 0; place < kLanes; ++place) {
    if (name == lane_name(lane_at(place))) return lane_at(place);
  }
  keys.fail(fmt::format("groups[{}]", i),
            fmt::format("found \"{}\", expected a group such as \"tensor\", or \"host\"", printable(name)));
}

Json lanes_to_json(const std::vector<LaneSpan>& spans) {
  Json json = {{"groups", Json::array()}};
  for (const LaneSpan& span : spans) json["groups"].push_back(lane_name(span.group));
  for (std::size_t i = 0; i < std::size(kLaneTimes); ++i) {
    Json& times = json[kLaneTimes[i]] = Json::array();
    for (const LaneSpan& span : spans) times.push_back((span.*kLaneMembers[i]).value);
  }
  return json;
}

/// In order of start; nothing if the rank has none.
std::vector<LaneSpan> lanes_in(const JsonKeys& rank) {
  std::vector<LaneSpan> spans;
  if (rank.find("lanes") == nullptr) return spans;
  const JsonKeys keys = rank.object("lanes");
  for (const std::string& name : keys.strings("groups")) {
    LaneSpan span;
    span.group = lane_group(keys, name, spans.size());
    spans.push_back(span);
  }
  for (std::size_t i = 0; i < std::size(kLaneTimes); ++i) {
    const std::vector<double> times = keys.numbers(kLaneTimes[i], 0, kMaxSeconds);
    if (times.size() != spans.size())
      keys.fail(kLaneTimes[i],
                fmt::format("found {} elements, expected one per group, {}", times.size(), spans.size()));
    for (std::size_t k = 0; k < times.size(); ++k) spans[k].*kLaneMembers[i] = {times[k]};
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end < spans[i].start) keys.fail(fmt::format("end_s[{}]", i), "ends before it starts");
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const LaneSpan& a, const LaneSpan& b) { return a.start < b.start; });
  return spans;
}

Json to_json(const std::optional<Timeline>& timeline) {
  if (!timeline) return nullptr;
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < timeline->trace.ranks.size(); ++rank) {
    Json row = {{"actions", Json::array()}, {"start_s", Json::array()}, {"end_s", Json::array()}};
    for (const Event& event : timeline->trace.ranks[rank]) {
      row["actions"].push_back(to_string(event.action));
      row["start_s"].push_back(event.start.value);
      row["end_s"].push_back(event.end.value);
    }
    if (rank < timeline->trace.collectives.size())
      row["collectives"] = collectives_to_json(timeline->trace.collectives[rank]);
    if (rank < timeline->lanes.size() && !timeline->lanes[rank].empty())
      row["lanes"] = lanes_to_json(timeline->lanes[rank]);
    if (rank < timeline->memory.size() && !timeline->memory[rank].empty()) {
      row["peak_bytes"] = bytes_of(timeline->memory[rank], &MemorySample::peak);
      row["after_bytes"] = bytes_of(timeline->memory[rank], &MemorySample::after);
    }
    ranks.push_back(std::move(row));
  }
  return {{"ranks", std::move(ranks)}};
}

/// There is one entry for each of `size` actions or collectives.
void check_size(const JsonKeys& keys, const char* key, std::size_t found, std::size_t size) {
  if (found == size) return;
  keys.fail(key, fmt::format("found {} elements, expected one per action, {}", found, size));
}

std::vector<double> times_of(const JsonKeys& keys, const char* key, std::size_t size) {
  std::vector<double> times = keys.numbers(key, 0, kMaxSeconds);
  check_size(keys, key, times.size(), size);
  return times;
}

/// One list of bytes per action, of one number per category.
std::vector<MemoryBreakdown> breakdowns_of(const JsonKeys& keys, const char* key, std::size_t size) {
  const Json& rows = keys.list(key);
  check_size(keys, key, rows.size(), size);
  std::vector<MemoryBreakdown> breakdowns;
  for (const Json& row : rows) {
    const auto refuse = [&] {
      keys.fail(fmt::format("{}[{}]", key, breakdowns.size()),
                fmt::format("found {}, expected {} numbers of bytes, one per category, whole and 0 or more",
                            JsonKeys::shown(row), kCategories));
    };
    if (!row.is_array() || row.size() != kCategories) refuse();
    MemoryBreakdown bytes;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::optional<std::int64_t> found = JsonKeys::integer_in(row[i], 0, kMaxBytes);
      if (!found) refuse();
      bytes.categories[i] = {*found};
    }
    breakdowns.push_back(bytes);
  }
  return breakdowns;
}

/// "C1 12"; nothing when the text is none.
std::optional<CollectiveEvent> collective_of(const std::string& text) {
  const std::string_view view = text;
  for (const VocabularyCall call : kAllVocabularyCalls) {
    if (view.substr(0, 2) != short_name(call) || view.substr(2, 1) != " ") continue;
    CollectiveEvent event;
    event.call = call;
    const char* end = view.data() + view.size();
    const auto [stop, error] = std::from_chars(view.data() + 3, end, event.microbatch);
    if (error == std::errc{} && stop == end && event.microbatch <= kMaxMicrobatch) return event;
  }
  return std::nullopt;
}

/// Collectives of one rank; nothing if it has none.
std::vector<CollectiveEvent> collectives_of(const JsonKeys& rank) {
  std::vector<CollectiveEvent> events;
  if (rank.find("collectives") == nullptr) return events;
  const JsonKeys keys = rank.object("collectives");
  for (const std::string& name : keys.strings("names")) {
    const std::optional<CollectiveEvent> event = collective_of(name);
    if (!event) {
      keys.fail(fmt::format("names[{}]", events.size()),
                fmt::format("found \"{}\", expected one collective, such as \"C1 3\"", printable(name)));
    }
    events.push_back(*event);
  }
  constexpr Seconds CollectiveEvent::*kMembers[] = {&CollectiveEvent::start, &CollectiveEvent::end,
                                                    &CollectiveEvent::waited_from, &CollectiveEvent::waited};
  for (std::size_t key = 0; key < std::size(kMembers); ++key) {
    const std::vector<double> times = times_of(keys, kCollectiveTimes[key], events.size());
    for (std::size_t i = 0; i < events.size(); ++i) events[i].*kMembers[key] = {times[i]};
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].end < events[i].start) keys.fail(fmt::format("end_s[{}]", i), "ends before it starts");
  }
  return events;
}

std::vector<Event> events_of(const JsonKeys& keys) {
  const std::vector<std::string> actions = keys.strings("actions");
  const std::vector<double> starts = times_of(keys, "start_s", actions.size());
  const std::vector<double> ends = times_of(keys, "end_s", actions.size());
  std::vector<Event> events(actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::string key = fmt::format("actions[{}]", i);
    Action parsed[2];
    if (parse_cell(actions[i], parsed, keys.place(key)) != 1)
      keys.fail(key, "expected one action, such as \"0F3\"");
    events[i] = {parsed[0], {starts[i]}, {ends[i]}};
    if (events[i].end < events[i].start) keys.fail(key, "ends before it starts");
  }
  return events;
}

std::vector<MemorySample> memory_of(const JsonKeys& keys, std::size_t size) {
  std::vector<MemorySample> memory;
  if (keys.find("peak_bytes") == nullptr && keys.find("after_bytes") == nullptr) return memory;
  const std::vector<MemoryBreakdown> peak = breakdowns_of(keys, "peak_bytes", size);
  const std::vector<MemoryBreakdown> after = breakdowns_of(keys, "after_bytes", size);
  for (std::size_t i = 0; i < size; ++i) memory.push_back({peak[i], after[i]});
  return memory;
}

void add_rank(const JsonKeys& keys, Timeline& timeline) {
  const std::vector<Event> events = events_of(keys);
  const std::vector<MemorySample> memory = memory_of(keys, events.size());
  // A stable order of start: events in order in the file stay so.
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return events[a].start < events[b].start; });
  std::vector<CollectiveEvent> collectives = collectives_of(keys);
  if (!collectives.empty()) {
    timeline.trace.collectives.resize(timeline.trace.ranks.size());
    timeline.trace.collectives.push_back(std::move(collectives));
  }
  std::vector<LaneSpan> lanes = lanes_in(keys);
  if (!lanes.empty()) {
    timeline.lanes.resize(timeline.trace.ranks.size());
    timeline.lanes.push_back(std::move(lanes));
  }
  auto& sorted = timeline.trace.ranks.emplace_back();
  auto& sorted_memory = timeline.memory.emplace_back();
  for (const std::size_t i : order) {
    sorted.push_back(events[i]);
    if (!memory.empty()) sorted_memory.push_back(memory[i]);
  }
}

std::optional<Timeline> timeline_of(const JsonKeys& file, const char* key) {
  if (file.find(key) == nullptr) return std::nullopt;
  Timeline timeline;
  for (const JsonKeys& rank : file.object(key).objects("ranks", kMaxRanks)) add_rank(rank, timeline);
  return timeline;
}

}  // namespace

std::string to_timeline_json(const CellTimelines& timelines) {
  const Json json = {{"schema", kTimelineSchema},
                     {"id", timelines.id},
                     {"predicted", to_json(timelines.predicted)},
                     {"measured", to_json(timelines.measured)}};
  return output_json(json, -1);
}

CellTimelines parse_timeline_json(std::string_view text, const std::string& origin) {
  const Json json = parse_json_object(text, origin, kMaxDepth);
  const JsonKeys keys(json, origin);
  if (keys.integer("schema", 0, 1 << 20) != kTimelineSchema)
    keys.fail("schema", fmt::format("this program reads {}", kTimelineSchema));
  return {keys.string("id"), timeline_of(keys, "predicted"), timeline_of(keys, "measured")};
}

std::optional<std::string> timeline_path(const std::string& folder, const std::string& id) {
  const auto plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (id.empty() || id.size() > 200 || id.front() == '.' || !std::all_of(id.begin(), id.end(), plain))
    return std::nullopt;
  return (std::filesystem::path(folder) / "timelines" / (id + ".json")).string();
}

std::optional<CellTimelines> load_timelines(const std::string& folder, const std::string& id) {
  const auto path = timeline_path(folder, id);
  std::error_code error;
  if (!path || !std::filesystem::exists(*path, error)) return std::nullopt;
  return parse_timeline_json(read_text_file(*path, kMaxFile), *path);
}

}  // namespace plumbline
