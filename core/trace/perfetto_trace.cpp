#include "core/trace/perfetto_trace.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <unordered_map>

#include "core/tensor/arena.hpp"
#include "core/trace/trace_lanes.hpp"

namespace plumbline {
namespace {

// Field numbers of perfetto's trace_packet.proto, track_descriptor.proto and track_event.proto.
namespace trace {
constexpr protozero::pbf_tag_type kPacket = 1;
}
namespace packet {
constexpr protozero::pbf_tag_type kTimestamp = 8;
constexpr protozero::pbf_tag_type kSequenceId = 10;
constexpr protozero::pbf_tag_type kTrackEvent = 11;
constexpr protozero::pbf_tag_type kSequenceFlags = 13;
constexpr protozero::pbf_tag_type kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;
}  // namespace packet
namespace track {
constexpr protozero::pbf_tag_type kUuid = 1;
constexpr protozero::pbf_tag_type kName = 2;
constexpr protozero::pbf_tag_type kProcess = 3;
constexpr protozero::pbf_tag_type kParentUuid = 5;
constexpr protozero::pbf_tag_type kCounter = 8;
constexpr protozero::pbf_tag_type kChildOrdering = 11;
constexpr protozero::pbf_tag_type kSiblingOrder = 12;
constexpr std::int32_t kExplicit = 3;
constexpr protozero::pbf_tag_type kPid = 1;
constexpr protozero::pbf_tag_type kProcessName = 6;
constexpr protozero::pbf_tag_type kCounterUnit = 3;
constexpr std::int32_t kSizeBytes = 3;
}  // namespace track
namespace event {
constexpr protozero::pbf_tag_type kDebugAnnotations = 4;
constexpr protozero::pbf_tag_type kType = 9;
constexpr protozero::pbf_tag_type kTrackUuid = 11;
constexpr protozero::pbf_tag_type kCategories = 22;
constexpr protozero::pbf_tag_type kName = 23;
constexpr protozero::pbf_tag_type kCounterValue = 30;
constexpr protozero::pbf_tag_type kFlowIds = 47;
constexpr protozero::pbf_tag_type kTerminatingFlowIds = 48;
constexpr protozero::pbf_tag_type kAnnotationUint = 3;
constexpr protozero::pbf_tag_type kAnnotationName = 10;
enum Type : std::int32_t { slice_begin = 1, slice_end = 2, counter = 4 };
}  // namespace event

constexpr std::uint32_t kSequence = 1;
constexpr int kTracksInOrder = 64;  // tracks of a rank that stand together, in their order
constexpr int kCounterPlace = 48;

std::uint64_t nanoseconds(Seconds time) {
  return static_cast<std::uint64_t>(std::llround(std::max(time.value, 0.0) * 1e9));
}

/// Appends packets to a file; one sequence.
class Writer {
 public:
  template <class Fill>
  void describe(std::uint64_t uuid, std::uint64_t parent, const std::string& name, int order, Fill fill) {
    protozero::pbf_writer file(out_);
    protozero::pbf_writer packet(file, trace::kPacket);
    begin(packet);
    protozero::pbf_writer descriptor(packet, packet::kTrackDescriptor);
    descriptor.add_uint64(track::kUuid, uuid);
    if (parent != 0) descriptor.add_uint64(track::kParentUuid, parent);
    if (!name.empty()) descriptor.add_string(track::kName, name);
    descriptor.add_int32(track::kSiblingOrder, order);
    fill(descriptor);
  }

  template <class Fill>
  void event(event::Type type, std::uint64_t uuid, std::uint64_t timestamp, Fill fill) {
    protozero::pbf_writer file(out_);
    protozero::pbf_writer packet(file, trace::kPacket);
    packet.add_uint64(packet::kTimestamp, timestamp);
    begin(packet);
    protozero::pbf_writer body(packet, packet::kTrackEvent);
    body.add_enum(event::kType, type);
    body.add_uint64(event::kTrackUuid, uuid);
    fill(body);
  }

  std::string take() { return std::move(out_); }

 private:
  void begin(protozero::pbf_writer& packet) {
    packet.add_uint32(packet::kSequenceId, kSequence);
    if (first_) packet.add_uint32(packet::kSequenceFlags, packet::kStateCleared);
    first_ = false;
  }

  std::string out_;
  bool first_ = true;
};

void annotate(protozero::pbf_writer& event, const char* name, std::uint64_t value) {
  protozero::pbf_writer annotation(event, event::kDebugAnnotations);
  annotation.add_string(event::kAnnotationName, name);
  annotation.add_uint64(event::kAnnotationUint, value);
}

/// Identifiers of one trace's tracks; the processes of a file do not share any.
class Process {
 public:
  Process(std::size_t number, std::size_t ranks) : base_((number + 1) << 40), ranks_(ranks) {}
  std::uint64_t uuid() const { return base_; }
  std::uint64_t lane(std::size_t rank, int lane) const {
    return base_ + 1 + static_cast<std::uint64_t>(lane) * ranks_ + rank;
  }
  std::uint64_t counter(std::size_t rank, std::size_t category) const {
    return base_ + (std::uint64_t{1} << 32) + rank * kCategories + category;
  }
  std::uint64_t flow(std::size_t message) const { return base_ + message; }

 private:
  std::uint64_t base_;
  std::uint64_t ranks_;
};

/// Arrows that leave from and arrive at the events of a rank.
struct Flows {
  std::vector<std::vector<std::uint64_t>> out;
  std::vector<std::vector<std::uint64_t>> in;
};

std::vector<Flows> flows_of(const Trace& trace, const Process& process) {
  std::vector<Flows> flows;
  for (const auto& events : trace.ranks)
    flows.push_back({decltype(Flows::out)(events.size()), decltype(Flows::in)(events.size())});
  const std::vector<Message> messages = messages_of(trace);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    flows[messages[i].from_rank].out[messages[i].from_event].push_back(process.flow(i));
    flows[messages[i].to_rank].in[messages[i].to_event].push_back(process.flow(i));
  }
  return flows;
}

/// The collectives of vocabulary parallelism on one rank; exposed time is a nested slice.
void write_collectives(Writer& writer, const std::vector<CollectiveEvent>& events, const Process& process,
                       std::size_t rank, int first_lane) {
  const CollectiveLanes lanes = lanes_of(events);
  for (std::size_t lane = 0; lane < lanes.call_of_lane.size(); ++lane) {
    const int place = first_lane + static_cast<int>(lane);
    writer.describe(process.lane(rank, place), process.uuid(),
                    fmt::format("rank {} {}", rank, name_of(lanes.call_of_lane[lane])),
                    static_cast<int>(rank) * kTracksInOrder + place, [](protozero::pbf_writer&) {});
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const CollectiveEvent& e = events[i];
    const std::uint64_t uuid = process.lane(rank, first_lane + lanes.lane_of_event[i]);
    const auto slice = [&](Seconds from, const std::string& name, const char* category) {
      writer.event(event::slice_begin, uuid, nanoseconds(from), [&](protozero::pbf_writer& body) {
        body.add_string(event::kCategories, category);
        body.add_string(event::kName, name);
        annotate(body, "microbatch", e.microbatch);
        annotate(body, "waited_ns", nanoseconds(e.waited));
      });
    };
    const auto end = [&](Seconds to) {
      writer.event(event::slice_end, uuid, nanoseconds(to), [](protozero::pbf_writer&) {});
    };
    slice(e.start, fmt::format("{} {}", short_name(e.call), e.microbatch), "collective");
    const auto [from, to] = wait_of(e);
    if (to > from) {
      slice(from, "exposed wait", "exposed");
      end(to);
    }
    end(e.end);
  }
}

/// The collectives of each group of a rank.
void write_lanes(Writer& writer, const std::vector<LaneSpan>& spans, const Process& process, std::size_t rank,
                 int first_lane) {
  for (const LaneGroup group : groups_of(spans)) {
    const std::uint64_t uuid = process.lane(rank, first_lane);
    const std::string name(lane_name(group));
    writer.describe(uuid, process.uuid(), fmt::format("rank {} {}", rank, title_of(group)),
                    static_cast<int>(rank) * kTracksInOrder + first_lane, [](protozero::pbf_writer&) {});
    const auto begin = [&](Seconds from, const std::string& text, const char* category, Seconds waited) {
      writer.event(event::slice_begin, uuid, nanoseconds(from), [&](protozero::pbf_writer& body) {
        body.add_string(event::kCategories, category);
        body.add_string(event::kName, text);
        annotate(body, "waited_ns", nanoseconds(waited));
      });
    };
    const auto end = [&](Seconds to) {
      writer.event(event::slice_end, uuid, nanoseconds(to), [](protozero::pbf_writer&) {});
    };
    for (const LaneSpan& span : spans) {
      if (span.group != group) continue;
      begin(span.start, name, kind_of(group), span.waited);
      const auto [from, to] = wait_of(span);
      if (to > from) {
        begin(from, "exposed wait", "exposed", span.waited);
        end(to);
      }
      end(span.end);
    }
    ++first_lane;
  }
}

void write_slices(Writer& writer, const Schedule& schedule, const NamedTrace& named, const Process& process) {
  const Trace& trace = named.trace;
  const std::vector<Flows> flows = flows_of(trace, process);
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const std::vector<Event>& events = trace.ranks[rank];
    const RankLanes lanes = lanes_of(events);
    for (int lane = 0; lane < lanes.lanes; ++lane) {
      const bool messages = lane >= lanes.first_message_lane;
      const std::string name = fmt::format("rank {}{}", rank,
                                           messages   ? " messages"
                                           : lane > 0 ? " together"
                                                      : "");
      writer.describe(process.lane(rank, lane), process.uuid(), name,
                      static_cast<int>(rank) * kTracksInOrder + lane, [](protozero::pbf_writer&) {});
    }
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& e = events[i];
      const std::uint64_t uuid = process.lane(rank, lanes.lane_of_event[i]);
      writer.event(event::slice_begin, uuid, nanoseconds(e.start), [&](protozero::pbf_writer& body) {
        body.add_string(event::kCategories, std::string(name_of(e.action.type)));
        body.add_string(event::kName, to_string(e.action));
        annotate(body, "stage", e.action.stage);
        annotate(body, "microbatch", e.action.microbatch);
        annotate(body, "route", static_cast<std::uint64_t>(e.action.stage / schedule.stages_per_route()));
        for (const std::uint64_t flow : flows[rank].out[i]) body.add_fixed64(event::kFlowIds, flow);
        for (const std::uint64_t flow : flows[rank].in[i]) body.add_fixed64(event::kTerminatingFlowIds, flow);
      });
      writer.event(event::slice_end, uuid, nanoseconds(e.end), [](protozero::pbf_writer&) {});
    }
    if (named.lanes != nullptr && rank < named.lanes->size()) {
      const int collectives = rank < trace.collectives.size()
                                  ? static_cast<int>(lanes_of(trace.collectives[rank]).call_of_lane.size())
                                  : 0;
      write_lanes(writer, (*named.lanes)[rank], process, rank, lanes.lanes + collectives);
    }
    if (rank < trace.collectives.size())
      write_collectives(writer, trace.collectives[rank], process, rank, lanes.lanes);
  }
}

/// A counter for each category that is ever other than 0; a value where it changes.
void write_counters(Writer& writer, const NamedTrace& named, const Process& process) {
  if (named.memory == nullptr) return;
  for (std::size_t rank = 0; rank < std::min(named.memory->size(), named.trace.ranks.size()); ++rank) {
    const std::vector<Event>& events = named.trace.ranks[rank];
    const std::vector<MemorySample>& samples = (*named.memory)[rank];
    for (std::size_t c = 0; c < kCategories; ++c) {
      std::int64_t now = 0;
      bool described = false;
      const auto value = [&](Seconds moment, Bytes bytes) {
        if (bytes.value == now) return;
        if (!described) {
          const auto category = name_of(static_cast<Category>(c));
          writer.describe(process.counter(rank, c), process.uuid(), fmt::format("rank {} {}", rank, category),
                          static_cast<int>(rank) * kTracksInOrder + kCounterPlace,
                          [](protozero::pbf_writer& descriptor) {
                            protozero::pbf_writer counter(descriptor, track::kCounter);
                            counter.add_enum(track::kCounterUnit, track::kSizeBytes);
                          });
          described = true;
        }
        now = bytes.value;
        writer.event(event::counter, process.counter(rank, c), nanoseconds(moment),
                     [&](protozero::pbf_writer& body) { body.add_int64(event::kCounterValue, now); });
      };
      for (std::size_t i = 0; i < std::min(events.size(), samples.size()); ++i) {
        value(events[i].start, samples[i].peak.categories[c]);
        value(events[i].end, samples[i].after.categories[c]);
      }
    }
  }
}

}  // namespace

std::string to_perfetto(const Schedule& schedule, const std::vector<NamedTrace>& traces) {
  Writer writer;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const Process process(i, traces[i].trace.ranks.size());
    writer.describe(process.uuid(), 0, "", static_cast<int>(i), [&](protozero::pbf_writer& descriptor) {
      {
        protozero::pbf_writer body(descriptor, track::kProcess);
        body.add_int32(track::kPid, static_cast<std::int32_t>(i) + 1);
        body.add_string(track::kProcessName, traces[i].name);
      }
      descriptor.add_enum(track::kChildOrdering, track::kExplicit);
    });
    write_slices(writer, schedule, traces[i], process);
    write_counters(writer, traces[i], process);
  }
  return writer.take();
}

}  // namespace plumbline
