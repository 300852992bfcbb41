// Timelines to JSON and back.
#include "bench/report/timelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule_text/schedule_cells.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::json;

constexpr int kTimelineSchema = 1;
constexpr std::size_t kMaxFile = std::size_t{1} << 29;
constexpr std::size_t kMaxRanks = std::size_t{1} << 16;
constexpr int kMaxDepth = 8;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;
constexpr double kMaxSeconds = 1e9;
constexpr std::uint32_t kMaxMicrobatch = 1U << 30;
constexpr const char* kCollectiveTimes[] = {"start_s", "end_s", "waited_from_s", "waited_s"};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw InputError(where + ": " + what);
}

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
    if (rank < timeline->memory.size() && !timeline->memory[rank].empty()) {
      row["peak_bytes"] = bytes_of(timeline->memory[rank], &MemorySample::peak);
      row["after_bytes"] = bytes_of(timeline->memory[rank], &MemorySample::after);
    }
    ranks.push_back(std::move(row));
  }
  return {{"ranks", std::move(ranks)}};
}

const Json& list_of(const Json& row, const char* key, std::size_t size, const std::string& where) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_array()) fail(where, fmt::format("{}: expected a list", key));
  if (size != std::string::npos && found->size() != size) {
    fail(where, fmt::format("{}: found {} elements, expected one per action, {}", key, found->size(), size));
  }
  return *found;
}

double time_of(const Json& value, const std::string& where) {
  const double seconds = value.is_number() ? value.get<double>() : NAN;
  if (!(seconds >= 0 && seconds <= kMaxSeconds)) fail(where, "expected a time in seconds, 0 or more");
  return seconds;
}

MemoryBreakdown breakdown_of(const Json& row, const std::string& where) {
  if (!row.is_array() || row.size() != kCategories) {
    fail(where, fmt::format("expected {} numbers of bytes, one per category", kCategories));
  }
  MemoryBreakdown bytes;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool in_range = row[i].is_number_unsigned()  ? row[i].get<std::uint64_t>() <= kMaxBytes
                          : row[i].is_number_integer() ? row[i].get<std::int64_t>() >= 0
                                                       : false;
    if (!in_range) fail(where, "expected a whole number of bytes, 0 or more");
    bytes.categories[i] = {row[i].get<std::int64_t>()};
  }
  return bytes;
}

/// "C1 12".
CollectiveEvent collective_of(const Json& name, const std::string& where) {
  if (name.is_string()) {
    const std::string_view text = name.get_ref<const std::string&>();
    for (const VocabularyCall call : kAllVocabularyCalls) {
      if (text.substr(0, 2) != short_name(call) || text.substr(2, 1) != " ") continue;
      CollectiveEvent event;
      event.call = call;
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + 3, end, event.microbatch);
      if (error == std::errc{} && stop == end && event.microbatch <= kMaxMicrobatch) return event;
    }
  }
  fail(where, "expected one collective, such as \"C1 3\"");
}

/// Of one rank; nothing where it has none.
std::vector<CollectiveEvent> collectives_of(const Json& row, const std::string& origin) {
  std::vector<CollectiveEvent> events;
  const auto found = row.find("collectives");
  if (found == row.end()) return events;
  const std::string where = origin + ", collectives";
  if (!found->is_object()) fail(where, "expected a JSON object");
  for (const Json& name : list_of(*found, "names", std::string::npos, where))
    events.push_back(collective_of(name, where));
  for (const char* key : kCollectiveTimes) list_of(*found, key, events.size(), where);
  for (std::size_t i = 0; i < events.size(); ++i) {
    CollectiveEvent& event = events[i];
    Seconds* const times[] = {&event.start, &event.end, &event.waited_from, &event.waited};
    const std::string at = fmt::format("{} {}", where, i + 1);
    for (std::size_t time = 0; time < std::size(times); ++time)
      *times[time] = {time_of((*found)[kCollectiveTimes[time]][i], at)};
    if (event.end < event.start) fail(at, "ends before it starts");
  }
  return events;
}

void add_rank(const Json& row, const std::string& where, Timeline& timeline) {
  if (!row.is_object()) fail(where, "expected a JSON object");
  const Json& actions = list_of(row, "actions", std::string::npos, where);
  const std::size_t size = actions.size();
  const Json& starts = list_of(row, "start_s", size, where);
  const Json& ends = list_of(row, "end_s", size, where);
  std::vector<Event> events(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::string at = fmt::format("{}, action {}", where, i + 1);
    if (!actions[i].is_string()) fail(at, "expected a text such as \"0F3\"");
    Action parsed[2];
    if (parse_cell(actions[i].get_ref<const std::string&>(), parsed, at) != 1)
      fail(at, "expected one action, such as \"0F3\"");
    events[i] = {parsed[0], {time_of(starts[i], at)}, {time_of(ends[i], at)}};
    if (events[i].end < events[i].start) fail(at, "ends before it starts");
  }
  std::vector<MemorySample> memory;
  if (row.contains("peak_bytes") || row.contains("after_bytes")) {
    const Json& peak = list_of(row, "peak_bytes", size, where);
    const Json& after = list_of(row, "after_bytes", size, where);
    for (std::size_t i = 0; i < size; ++i) {
      const std::string at = fmt::format("{}, action {}, bytes", where, i + 1);
      memory.push_back({breakdown_of(peak[i], at), breakdown_of(after[i], at)});
    }
  }
  // A stable order of start: what the file had in order stays as it was.
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return events[a].start < events[b].start; });
  std::vector<CollectiveEvent> collectives = collectives_of(row, where);
  if (!collectives.empty()) {
    timeline.trace.collectives.resize(timeline.trace.ranks.size());
    timeline.trace.collectives.push_back(std::move(collectives));
  }
  auto& sorted = timeline.trace.ranks.emplace_back();
  auto& sorted_memory = timeline.memory.emplace_back();
  for (const std::size_t i : order) {
    sorted.push_back(events[i]);
    if (!memory.empty()) sorted_memory.push_back(memory[i]);
  }
}

std::optional<Timeline> timeline_of(const Json& json, const char* key, const std::string& origin) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  if (!found->is_object()) fail(origin, fmt::format("{}: expected a JSON object or null", key));
  const std::string where = fmt::format("{}: {}", origin, key);
  const Json& ranks = list_of(*found, "ranks", std::string::npos, where);
  if (ranks.size() > kMaxRanks)
    fail(where, fmt::format("found {} ranks, expected at most {}", ranks.size(), kMaxRanks));
  Timeline timeline;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    add_rank(ranks[rank], fmt::format("{}: rank {}", where, rank), timeline);
  return timeline;
}

}  // namespace

std::string to_timeline_json(const CellTimelines& timelines) {
  const Json json = {{"schema", kTimelineSchema},
                     {"id", timelines.id},
                     {"predicted", to_json(timelines.predicted)},
                     {"measured", to_json(timelines.measured)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CellTimelines parse_timeline_json(std::string_view text, const std::string& origin) {
  Json json;
  const auto shallow = [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    if (depth > kMaxDepth) fail(origin, fmt::format("nested deeper than {} levels", kMaxDepth));
    return true;
  };
  try {
    json = Json::parse(text, shallow);
  } catch (const Json::exception& error) {
    fail(origin, fmt::format("not valid JSON: {}", printable(error.what(), 200)));
  }
  if (!json.is_object()) fail(origin, "expected a JSON object");
  const auto schema = json.find("schema");
  if (schema == json.end() || *schema != kTimelineSchema)
    fail(origin, fmt::format("schema: this program reads {}", kTimelineSchema));
  CellTimelines timelines;
  const auto id = json.find("id");
  if (id == json.end() || !id->is_string()) fail(origin, "id: expected a text");
  timelines.id = id->get<std::string>();
  timelines.predicted = timeline_of(json, "predicted", origin);
  timelines.measured = timeline_of(json, "measured", origin);
  return timelines;
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
