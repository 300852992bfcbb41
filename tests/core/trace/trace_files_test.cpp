// Trace files: viewers' requirements on every slice, counter and arrow, in the protobuf and in the JSON.
#include "core/trace/trace_files.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "core/trace/perfetto_trace.hpp"
#include "core/trace/trace_lanes.hpp"
#include "tests/core/trace/perfetto_reader.hpp"

namespace plumbline::trace_files_test {
namespace {

using test::Perfetto;
using test::Slice;

Event at(ActionType type, std::uint16_t stage, std::uint32_t microbatch, double start, double end) {
  return {{type, false, stage, microbatch}, {start}, {end}};
}

/// Two ranks, one micro-batch there and back, an overlapped send and a pair that runs together.
struct Sample {
  Schedule schedule;
  Trace trace;
  std::vector<std::vector<MemorySample>> memory;

  Sample() {
    schedule.ranks = 2;
    schedule.stages = 2;
    schedule.rank_of_stage = {0, 1};
    schedule.microbatches = 2;
    using enum ActionType;
    trace.ranks = {{at(forward, 0, 0, 0, 1), at(send_forward, 0, 0, 1, 1.5), at(forward, 0, 1, 1.2, 2),
                    at(receive_backward, 0, 0, 2, 4.2), at(backward, 0, 0, 4.2, 6)},
                   {at(receive_forward, 1, 0, 0, 1.6), at(forward, 1, 0, 1.6, 2.6),
                    at(backward, 1, 0, 2.6, 4), at(forward, 1, 1, 2.6, 4), at(send_backward, 1, 0, 4, 4.1)}};
    for (const auto& events : trace.ranks) {
      auto& samples = memory.emplace_back(events.size());
      for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i].peak[Category::activations] = {100 * (static_cast<std::int64_t>(i) + 2)};
        samples[i].after[Category::activations] = {100 * (static_cast<std::int64_t>(i) + 1)};
      }
    }
  }
};

TEST(TraceLanes, SlicesOfALaneDoNotOverlap) {
  const Sample sample;
  for (const auto& events : sample.trace.ranks) {
    const RankLanes lanes = lanes_of(events);
    for (int lane = 0; lane < lanes.lanes; ++lane) {
      Seconds end;
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (lanes.lane_of_event[i] != lane) continue;
        EXPECT_GE(events[i].start, end);
        end = events[i].end;
        EXPECT_EQ(lane >= lanes.first_message_lane, is_transfer(events[i].action.type));
      }
    }
  }
  EXPECT_EQ(lanes_of(sample.trace.ranks[1]).first_message_lane, 2);  // the pair that runs together
}

TEST(TraceLanes, MessagesGoFromTheSendToTheActionThatUsesThem) {
  const Sample sample;
  const std::vector<Message> messages = messages_of(sample.trace);
  ASSERT_EQ(messages.size(), 3U);
  const auto text = [&](std::size_t rank, std::size_t event) {
    return to_string(sample.trace.ranks[rank][event].action);
  };
  EXPECT_EQ(text(messages[0].from_rank, messages[0].from_event), "1SEND_B0");
  EXPECT_EQ(text(messages[0].to_rank, messages[0].to_event), "0B0");
  EXPECT_EQ(text(messages[1].from_rank, messages[1].from_event), "0SEND_F0");
  EXPECT_EQ(text(messages[1].to_rank, messages[1].to_event), "1F0");
  EXPECT_EQ(text(messages[2].from_rank, messages[2].from_event), "0F1");  // no send: from the action itself
}

TEST(Perfetto, TwoProcessesWithAllSlicesMessagesAndBytes) {
  const Sample sample;
  const Perfetto file(to_perfetto(
      sample.schedule, {{"predicted", sample.trace, &sample.memory}, {"measured", sample.trace, nullptr}}));
  EXPECT_EQ(file.processes, (std::set<std::string>{"measured", "predicted"}));
  EXPECT_EQ(file.cleared, 1);
  std::multiset<std::string> names;
  for (const auto& [uuid, slices] : file.slices) {
    for (const Slice& slice : slices) names.insert(slice.name);
  }
  EXPECT_EQ(names.size(), 20U);
  EXPECT_EQ(names.count("0B0"), 2U);
  EXPECT_EQ(file.flows_out.size(), 6U);
  for (const auto& [id, moments] : file.flows_out) {
    ASSERT_EQ(moments.size(), 1U);
    ASSERT_EQ(file.flows_in.at(id).size(), 1U);
    EXPECT_LE(moments[0], file.flows_in.at(id)[0]) << "an arrow into the past";
  }
  ASSERT_EQ(file.counters.size(), 2U);  // one category on two ranks, of the trace that has memory
  for (const auto& [uuid, values] : file.counters) {
    EXPECT_EQ(file.tracks.at(uuid).substr(6), " activations");
    EXPECT_EQ(values.front(), 200);
    EXPECT_EQ(values.back(), 500);
  }
}

TEST(Perfetto, TimesAreNanoseconds) {
  const Sample sample;
  const Perfetto file(to_perfetto(sample.schedule, {{"predicted", sample.trace, nullptr}}));
  for (const auto& [uuid, slices] : file.slices) {
    for (const Slice& slice : slices) {
      if (slice.name != "1B0") continue;
      EXPECT_EQ(slice.begin, 2'600'000'000U);
      EXPECT_EQ(slice.end, 4'000'000'000U);
    }
  }
}

/// Two C0 in progress together, a C1 that is exposed at its end, a C2 that is hidden.
Sample with_collectives() {
  Sample sample;
  using enum VocabularyCall;
  sample.trace.collectives = {{{hidden, 0, {1}, {2}, {0}, {0}},
                               {hidden, 1, {1.5}, {2.5}, {0}, {0}},
                               {statistics, 0, {2}, {3}, {2.75}, {0.5}},
                               {hidden_gradient, 0, {3}, {4}, {5}, {0}}},
                              {{hidden, 0, {0.5}, {2}, {1.5}, {0.5}}}};
  return sample;
}

TEST(Perfetto, CollectivesHaveTracksOfTheirOwn) {
  const Sample sample = with_collectives();
  const Perfetto file(to_perfetto(sample.schedule, {{"predicted", sample.trace, nullptr}}));
  const auto found = file.by_track();
  EXPECT_EQ(found.at("rank 0 C0 broadcast X").size(), 2U);
  const std::vector<Slice>& gather = found.at("rank 0 C1 all-gather statistics");
  ASSERT_EQ(gather.size(), 2U);
  EXPECT_EQ(gather[0].name, "C1 0");
  EXPECT_EQ(gather[1].name, "exposed wait");
  EXPECT_EQ(gather[1].begin, 2'750'000'000U);
  EXPECT_EQ(gather[1].end, 3'000'000'000U) << "no longer than the slice it lies in";
  EXPECT_EQ(gather[0].end, 3'000'000'000U);
  EXPECT_EQ(found.at("rank 0 C2 all-reduce dX").size(), 1U);
  EXPECT_EQ(found.at("rank 1 C0 broadcast X").size(), 2U);
  std::map<std::string, int> tracks;
  for (const auto& [uuid, name] : file.tracks) ++tracks[name];
  EXPECT_EQ(tracks.at("rank 0 C0 broadcast X"), 2) << "one each for what is in progress together";
}

TEST(TraceJson, CollectivesHaveTracksOfTheirOwn) {
  const Sample sample = with_collectives();
  const auto json = nlohmann::json::parse(to_trace_json(sample.schedule, sample.trace));
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, double> outer_end;
  std::map<std::string, int> categories;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    const std::string category = event["cat"];
    ++categories[category];
    const double begin = event["ts"];
    const double end = begin + event["dur"].get<double>();
    double& outer = outer_end[event["tid"]];
    if (category == "exposed") {
      EXPECT_LE(end, outer + 1e-6) << "a wait lies within its collective";
    } else {
      EXPECT_GE(begin, outer - 1e-6) << "slices overlap on " << tracks.at(event["tid"]);
      outer = end;
    }
    if (category == "collective") {
      EXPECT_NE(tracks.at(event["tid"]).find(event["name"].get<std::string>().substr(0, 2)),
                std::string::npos);
      EXPECT_TRUE(event["args"].contains("microbatch"));
      EXPECT_TRUE(event["args"].contains("waited_us"));
    }
  }
  EXPECT_EQ(categories.at("collective"), 5);
  EXPECT_EQ(categories.at("exposed"), 2);
}

/// A gather that is exposed in its last half and one that is hidden, of the tensor group; the other rank has
/// another group.
const std::vector<std::vector<LaneSpan>> kLanes = {
    {{Group::tensor, {0}, {1}, {0.5}}, {Group::data, {0.5}, {2}, {0}}, {Group::tensor, {1}, {2}, {0}}},
    {{Group::expert, {3}, {4}, {9}}, {std::nullopt, {3}, {3.5}, {0.25}}}};

TEST(Perfetto, GroupsHaveTracksOfTheirOwn) {
  const Sample sample = with_collectives();
  const Perfetto file(to_perfetto(sample.schedule, {{"predicted", sample.trace, nullptr, &kLanes}}));
  const auto found = file.by_track();
  const std::vector<Slice>& tensor = found.at("rank 0 tensor group");
  ASSERT_EQ(tensor.size(), 3U);
  EXPECT_EQ(tensor[1].name, "exposed wait");
  EXPECT_EQ(tensor[1].begin, 500'000'000U);
  EXPECT_EQ(tensor[1].end, 1'000'000'000U);
  EXPECT_EQ(found.at("rank 0 data group").size(), 1U);
  ASSERT_EQ(found.at("rank 1 expert group").size(), 2U);
  EXPECT_EQ(found.at("rank 1 expert group")[1].begin, 3'000'000'000U) << "no longer than its collective";
  EXPECT_EQ(found.at("rank 1 copies to and from the host").size(), 2U);
  EXPECT_EQ(found.at("rank 0 C0 broadcast X").size(), 2U) << "a track of its own";
}

TEST(TraceJson, GroupsHaveTracksOfTheirOwn) {
  const Sample sample = with_collectives();
  const auto json =
      nlohmann::json::parse(to_trace_json(sample.schedule, {{"predicted", sample.trace, nullptr, &kLanes}}));
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::string, std::map<std::string, double>> seconds;  // by track and category
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") {
      EXPECT_TRUE(tracks.emplace(event["tid"], event["args"]["name"]).second);
    }
    if (event["ph"] == "X")
      seconds[tracks.at(event["tid"])][event["cat"]] += event["dur"].get<double>() / 1e6;
  }
  using Sums = std::map<std::string, double>;
  EXPECT_EQ(seconds["rank 0 tensor group"], (Sums{{"collective", 2}, {"exposed", 0.5}}));
  EXPECT_EQ(seconds["rank 0 data group"], (Sums{{"collective", 1.5}}));
  EXPECT_EQ(seconds["rank 1 expert group"], (Sums{{"collective", 1}, {"exposed", 1}}));
  EXPECT_EQ(seconds["rank 1 copies to and from the host"], (Sums{{"copy", 0.5}, {"exposed", 0.25}}));
}

TEST(TraceJson, SlicesMessagesBytesAndRanks) {
  const Sample sample;
  const auto json = nlohmann::json::parse(to_trace_json(
      sample.schedule, {{"predicted", sample.trace, &sample.memory}, {"a \"name\"", sample.trace, nullptr}}));
  EXPECT_EQ(json["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(json["distributedInfo"]["pg_config"][0]["ranks"], (std::vector<int>{0, 1}));
  std::map<std::string, int> phases;
  std::map<std::string, double> begins;
  for (const auto& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    ++phases[phase];
    if (phase == "s") begins[event["id"]] = event["ts"];
    if (phase == "f") {
      EXPECT_LE(begins.at(event["id"]), event["ts"].get<double>());
    }
    if (phase == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
  }
  EXPECT_EQ(phases["X"], 20);
  EXPECT_EQ(phases["s"], 6);
  EXPECT_EQ(phases["f"], 6);
  EXPECT_EQ(phases["C"], 20);
}

}  // namespace
}  // namespace plumbline::trace_files_test
