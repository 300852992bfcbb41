#include "bench/show/report/packed_timeline.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

#include "bench/show/report/critical_chain.hpp"
#include "core/trace/trace_lanes.hpp"

namespace plumbline {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are written as they lie in memory");

constexpr std::uint32_t kNoPartner = std::numeric_limits<std::uint32_t>::max();
constexpr double kTicks = 4294967295.0;  // a trace's end in ticks

template <class T>
void append(std::vector<std::uint8_t>& bytes, const std::vector<T>& column) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(column.data());
  bytes.insert(bytes.end(), data, data + column.size() * sizeof(T));
}

std::uint64_t key_of(const Action& action) {
  return static_cast<std::uint64_t>(action.type) << 48 | static_cast<std::uint64_t>(action.stage) << 32 |
         action.microbatch;
}

struct Changes {
  std::vector<double> bytes;
  std::vector<std::uint32_t> when;
  std::vector<std::uint8_t> category;

  /// Every category that differs from `now`.
  void note(std::uint32_t moment, const MemoryBreakdown& next, std::array<std::int64_t, kCategories>& now) {
    for (std::size_t i = 0; i < kCategories; ++i) {
      if (next.categories[i].value == now[i]) continue;
      now[i] = next.categories[i].value;
      bytes.push_back(static_cast<double>(now[i]));
      when.push_back(moment);
      category.push_back(static_cast<std::uint8_t>(i));
    }
  }
};

Changes changes_of(const Timeline& timeline) {
  Changes changes;
  std::uint32_t event = 0;
  for (std::size_t rank = 0; rank < timeline.trace.ranks.size(); ++rank) {
    const std::size_t count = timeline.trace.ranks[rank].size();
    const bool known = rank < timeline.memory.size() && timeline.memory[rank].size() == count;
    std::array<std::int64_t, kCategories> now;
    now.fill(-1);
    for (std::size_t i = 0; i < count; ++i, ++event) {
      if (!known) continue;
      changes.note(2 * event, timeline.memory[rank][i].peak, now);
      changes.note(2 * event + 1, timeline.memory[rank][i].after, now);
    }
  }
  return changes;
}

std::unordered_map<std::uint64_t, std::uint32_t> places_of(const Timeline* timeline) {
  std::unordered_map<std::uint64_t, std::uint32_t> places;
  if (timeline == nullptr) return places;
  std::uint32_t event = 0;
  for (const auto& events : timeline->trace.ranks) {
    for (const Event& e : events) places.try_emplace(key_of(e.action), event++);
  }
  return places;
}

struct LaneColumns {
  std::vector<std::uint32_t> start, length, waited;
  std::vector<std::uint8_t> group;
  OrderedJson counts = OrderedJson::array();
};

template <class Ticks>
LaneColumns columns_of(const std::vector<std::vector<LaneSpan>>& lanes, const Ticks& ticks) {
  LaneColumns columns;
  for (const std::vector<LaneSpan>& rank : lanes) {
    columns.counts.push_back(rank.size());
    for (const LaneSpan& span : rank) {
      columns.start.push_back(ticks(span.start));
      columns.length.push_back(ticks(span.end - span.start));
      columns.waited.push_back(ticks(span.waited));
      columns.group.push_back(static_cast<std::uint8_t>(place_of(span.group)));
    }
  }
  return columns;
}

}  // namespace

PackedTimeline pack(const Timeline& timeline, const Timeline* other, bool with_memory, bool with_lanes) {
  const double span = timeline.trace.makespan().value;
  const double tick = span > 0 ? span / kTicks : 1;
  const auto ticks = [&](Seconds time) {
    return static_cast<std::uint32_t>(std::llround(std::min(time.value / tick, kTicks)));
  };
  const auto partners = places_of(other);
  std::vector<std::uint32_t> start;
  std::vector<std::uint32_t> length;
  std::vector<std::uint32_t> microbatch;
  std::vector<std::uint32_t> partner;
  std::vector<std::uint16_t> stage;
  std::vector<std::uint8_t> type;
  std::vector<std::uint32_t> first_of_rank;
  OrderedJson counts = OrderedJson::array();
  for (const auto& events : timeline.trace.ranks) {
    first_of_rank.push_back(static_cast<std::uint32_t>(start.size()));
    counts.push_back(events.size());
    for (const Event& event : events) {
      start.push_back(ticks(event.start));
      length.push_back(ticks(event.end - event.start));
      microbatch.push_back(event.action.microbatch);
      const auto found = partners.find(key_of(event.action));
      partner.push_back(found == partners.end() ? kNoPartner : found->second);
      stage.push_back(event.action.stage);
      type.push_back(static_cast<std::uint8_t>(event.action.type));
    }
  }
  std::vector<std::uint32_t> chain;
  for (const EventAt& place : critical_chain(timeline.trace))
    chain.push_back(first_of_rank[place.rank] + static_cast<std::uint32_t>(place.position));
  const Changes changes = with_memory ? changes_of(timeline) : Changes{};

  PackedTimeline packed;
  packed.header = {{"tick_s", tick},
                   {"ranks", std::move(counts)},
                   {"chain", chain.size()},
                   {"memory", changes.when.size()}};
  if (!timeline.trace.collectives.empty()) {
    OrderedJson ranks = OrderedJson::array();
    for (const auto& events : timeline.trace.collectives) {
      OrderedJson row = OrderedJson::array();
      for (const CollectiveEvent& event : events) {
        const auto [from, to] = wait_of(event);
        const bool waits = to > from;
        for (const std::uint32_t number :
             {static_cast<std::uint32_t>(event.call), event.microbatch, ticks(event.start), ticks(event.end),
              waits ? ticks(from) : 0, waits ? ticks(to) : 0})
          row.push_back(number);
      }
      ranks.push_back(std::move(row));
    }
    packed.header["collectives"] = std::move(ranks);
  }
  append(packed.bytes, changes.bytes);
  for (const std::vector<std::uint32_t>& column :
       {std::cref(start), std::cref(length), std::cref(microbatch), std::cref(partner), std::cref(chain),
        std::cref(changes.when)})
    append(packed.bytes, column);
  append(packed.bytes, stage);
  append(packed.bytes, type);
  append(packed.bytes, changes.category);
  if (with_lanes && !timeline.lanes.empty()) {
    LaneColumns lanes = columns_of(timeline.lanes, ticks);
    packed.bytes.resize((packed.bytes.size() + 3) / 4 * 4);  // numbers begin at multiples of their size
    append(packed.bytes, lanes.start);
    append(packed.bytes, lanes.length);
    append(packed.bytes, lanes.waited);
    append(packed.bytes, lanes.group);
    packed.header["lanes"] = std::move(lanes.counts);
  }
  return packed;
}

}  // namespace plumbline
