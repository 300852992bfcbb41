#include "analysis/diagnose/traces/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "analysis/diagnose/traces/own_ranks.hpp"
#include "analysis/diagnose/traces/text_table.hpp"
#include "analysis/diagnose/traces/trace_events.hpp"
#include "analysis/diagnose/traces/trace_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostLanes = 100'000;

/// Kind of a slice by its category; nothing: it is left out.
std::optional<SliceKind> kind_of_slice(const TraceEvent& event) {
  struct Named {
    std::string_view category;
    SliceKind kind;
  };
  constexpr Named kNamed[] = {{"cpu_op", SliceKind::op},       {"operator", SliceKind::op},
                              {"Operator", SliceKind::op},     {"user_annotation", SliceKind::annotation},
                              {"kernel", SliceKind::kernel},   {"Kernel", SliceKind::kernel},
                              {"gpu_memcpy", SliceKind::copy}, {"Memcpy", SliceKind::copy},
                              {"gpu_memset", SliceKind::fill}, {"Memset", SliceKind::fill},
                              {"Runtime", SliceKind::runtime}, {"python_gc", SliceKind::garbage}};
  const std::string_view category = event.category;
  for (const Named& named : kNamed) {
    if (category == named.category) return named.kind;
  }
  if (category.ends_with("_runtime") || category.ends_with("_driver")) return SliceKind::runtime;
  if (category == "mtia_ccp_events")
    return event.name.find("dma") == std::string::npos ? SliceKind::kernel : SliceKind::copy;
  const bool collects = event.name.find("gc.collect") != std::string::npos ||
                        event.name.find("method collect of module gc") != std::string::npos ||
                        event.name.find("built-in function collect") != std::string::npos;
  if (category == "python_function" && collects) return SliceKind::garbage;
  return std::nullopt;
}

/// "rank 3", "rank-3", "rank_3" or "rank3" in a name; -1: none.
int rank_in(std::string_view name) {
  for (std::size_t at = name.find("rank"); at != name.npos; at = name.find("rank", at + 1)) {
    std::size_t digit = at + std::string_view("rank").size();
    if (digit < name.size() && (name[digit] == '-' || name[digit] == '_' || name[digit] == ' ')) ++digit;
    int rank = -1;
    for (std::size_t i = digit; i < name.size() && i < digit + 7 && name[i] >= '0' && name[i] <= '9'; ++i)
      rank = (rank < 0 ? 0 : rank) * 10 + (name[i] - '0');
    if (rank >= 0) return rank;
  }
  return -1;
}

class TraceCollector {
 public:
  explicit TraceCollector(std::string origin) : texts_(origin) { trace_.origin = std::move(origin); }

  static void take(void* self, const TraceEvent& event) { static_cast<TraceCollector*>(self)->add(event); }

  void add(const TraceEvent& event) {
    if (event.phase == "M") {
      if (event.name == "thread_name") lanes_[lane_of(event, false)].title = title(event);
      if (event.name == "process_name") processes_[title_key(event.process)] = title(event);
      return;
    }
    const std::optional<SliceKind> kind = kind_of_slice(event);
    const bool whole = event.phase == "X" && event.has_begin && event.has_duration && event.duration >= 0;
    if (!whole) {
      if (event.phase == "X" || event.phase == "B") ++trace_.skipped;
      return;
    }
    // Slices of plumbline's own traces have categories of their own, and the header may come last.
    if (!kind && !own_slice(event)) return;
    if (static_cast<std::int64_t>(trace_.slices.size()) >= kMostSlices) {
      throw InputError(fmt::format("{}: found more than {} slices, expected fewer; profile fewer steps",
                                   trace_.origin, kMostSlices));
    }
    TracedSlice slice;
    slice.kind = kind.value_or(SliceKind::own);
    slice.begin = event.begin;
    slice.end = event.begin + event.duration;
    slice.correlation = event.correlation;
    slice.name = texts_.index_of(event.name);
    slice.category = texts_.index_of(event.category);
    slice.shapes = texts_.index_of(event.shapes);
    slice.lane = static_cast<std::int32_t>(lane_of(event, on_device(slice.kind)));
    if (!event.collective.empty()) {
      slice.message = static_cast<std::int32_t>(trace_.messages.size());
      trace_.messages.push_back({texts_.index_of(event.collective), texts_.index_of(event.group),
                                 texts_.index_of(event.description), texts_.index_of(event.ranks),
                                 texts_.index_of(event.dtype), event.elements_in, event.elements_out,
                                 event.group_size});
    }
    trace_.slices.push_back(slice);
  }

  std::vector<ProfileTrace> finish(const TraceHeader& header, const std::string& path) {
    trace_.texts = std::make_shared<const std::vector<std::string>>(texts_.take());
    trace_.lanes = std::make_shared<const std::vector<TraceLane>>(std::move(lanes_));
    trace_.device = printable(header.device);
    if (header.own) return own_ranks(std::move(trace_), processes_);
    std::erase_if(trace_.slices, [](const TracedSlice& each) { return each.kind == SliceKind::own; });
    trace_.rank = header.rank >= 0 && header.rank < (1 << 24)
                      ? static_cast<int>(header.rank)
                      : rank_in(std::filesystem::path(path).filename().string());
    trace_.world_size =
        static_cast<int>(std::clamp(header.world_size, std::int64_t{0}, std::int64_t{1} << 24));
    for (TracedSlice& slice : trace_.slices) {
      slice.begin += header.base_time;
      slice.end += header.base_time;
    }
    std::stable_sort(trace_.slices.begin(), trace_.slices.end(),
                     [](const TracedSlice& a, const TracedSlice& b) {
                       return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
                     });
    std::vector<ProfileTrace> ranks;
    ranks.push_back(std::move(trace_));
    return ranks;
  }

 private:
  static std::string title(const TraceEvent& event) { return event.argument_name.substr(0, 100); }
  static std::string title_key(const std::string& process) { return process.substr(0, 100); }

  /// True for a slice without a category that PyTorch uses.
  static bool own_slice(const TraceEvent& event) {
    constexpr std::string_view kOthers[] = {
        "python_function", "gpu_user_annotation", "Trace", "overhead", "ac2g", "fwdbwd", ""};
    return std::find(std::begin(kOthers), std::end(kOthers), event.category) == std::end(kOthers);
  }

  std::size_t lane_of(const TraceEvent& event, bool device) {
    // The last lane is mostly that of the event before.
    if (last_ < lanes_.size()) {
      const TraceLane& lane = lanes_[last_];
      if (lane.device == device && lane.thread == event.thread && lane.process == event.process) return last_;
    }
    const std::string key =
        fmt::format("{}\n{}\n{}", event.process.substr(0, 100), event.thread.substr(0, 100), device ? 1 : 0);
    const auto [place, added] = places_.emplace(key, lanes_.size());
    if (added) {
      if (lanes_.size() >= kMostLanes) {
        throw InputError(fmt::format("{}: found more than {} threads and streams, expected fewer",
                                     trace_.origin, kMostLanes));
      }
      lanes_.push_back({event.process.substr(0, 100), event.thread.substr(0, 100), "", device});
    }
    return last_ = place->second;
  }

  ProfileTrace trace_;
  TextTable texts_;
  std::vector<TraceLane> lanes_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::string> processes_;
  std::size_t last_ = 0;
};

}  // namespace

bool ProfileTrace::has_device() const {
  return std::any_of(slices.begin(), slices.end(),
                     [](const TracedSlice& slice) { return on_device(slice.kind); });
}

std::vector<ProfileTrace> read_trace_file(const std::string& path) {
  const std::string origin = printable(path, 200);
  TraceText text(path, origin);
  TraceCollector collector(origin);
  TraceEvents events(&TraceCollector::take, &collector);
  const bool parsed = nlohmann::json::sax_parse(TraceTextIterator(text), TraceTextIterator(), &events);
  if (!parsed) {
    throw InputError(
        fmt::format("{}: found text that is not JSON at {}, expected a whole Chrome trace of "
                    "PyTorch's profiler; write the trace anew",
                    origin, events.error()));
  }
  if (!events.header().has_events) {
    throw InputError(fmt::format(
        "{}: found JSON without traceEvents, expected a Chrome trace of PyTorch's profiler", origin));
  }
  std::vector<ProfileTrace> ranks = collector.finish(events.header(), path);
  for (const ProfileTrace& rank : ranks) {
    if (rank.slices.empty()) {
      throw InputError(fmt::format(
          "{}: found a trace without operators and kernels, expected those of a step; profile with "
          "slices CPU and CUDA",
          origin));
    }
  }
  return ranks;
}

}  // namespace plumbline
