// Timelines of a cell: the file, the columns of the page, the critical chain, the lines in a terminal.
#include "bench/show/report/timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "analysis/simulate/simulator.hpp"
#include "bench/show/report/critical_chain.hpp"
#include "bench/show/report/packed_timeline.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::report_timelines_test {
namespace {

Schedule schedule_of(const std::string& name, int ranks, int microbatches, bool transfers) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  const Schedule schedule = make_schedule(request);
  return transfers ? add_step_end(add_transfers(schedule, TransferOrder::sends_first), {}) : schedule;
}

Trace trace_of(const Schedule& schedule, Seconds transfer = {0.1}) {
  StageCosts each;
  each.forward = {1};
  each.backward = {2};
  each.backward_input = {1};
  each.backward_weight = {1};
  each.vocab_forward = {0.25};
  each.vocab_backward = {0.25};
  each.teacher_forward = {0.5};
  Costs costs = uniform_costs(schedule.stages, each);
  costs.transfer = transfer;
  costs.optimizer = {0.5};
  return simulate(schedule, costs);
}

Timeline sample_timeline() {
  Timeline timeline{trace_of(schedule_of("1f1b", 2, 3, true)), {}};
  for (const auto& events : timeline.trace.ranks) {
    auto& samples = timeline.memory.emplace_back(events.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i].peak[Category::activations] = {static_cast<std::int64_t>(1000 + i)};
      samples[i].after[Category::logits] = {static_cast<std::int64_t>(i)};
    }
  }
  return timeline;
}

std::vector<std::vector<LaneSpan>> sample_lanes() {
  return {{{Group::tensor, {0.5}, {1.5}, {0.25}},
           {Group::data, {1}, {3}, {0}},
           {Group::tensor, {2}, {2.5}, {0.5}}},
          {{std::nullopt, {0}, {1}, {1}}}};
}

TEST(Timelines, WhatIsWrittenIsRead) {
  CellTimelines written{"a-cell", sample_timeline(), std::nullopt};
  written.predicted->lanes = sample_lanes();
  const CellTimelines read = parse_timeline_json(to_timeline_json(written), "file");
  EXPECT_EQ(read.id, "a-cell");
  EXPECT_FALSE(read.measured);
  ASSERT_TRUE(read.predicted);
  ASSERT_EQ(read.predicted->trace.ranks.size(), 2U);
  ASSERT_EQ(read.predicted->lanes.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& events = written.predicted->trace.ranks[rank];
    ASSERT_EQ(read.predicted->trace.ranks[rank].size(), events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(read.predicted->trace.ranks[rank][i].action, events[i].action);
      EXPECT_EQ(read.predicted->trace.ranks[rank][i].start, events[i].start);
      EXPECT_EQ(read.predicted->trace.ranks[rank][i].end, events[i].end);
    }
    EXPECT_EQ(read.predicted->memory[rank], written.predicted->memory[rank]);
    const auto& lanes = written.predicted->lanes[rank];
    ASSERT_EQ(read.predicted->lanes[rank].size(), lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const LaneSpan& span = read.predicted->lanes[rank][i];
      EXPECT_EQ(span.group, lanes[i].group);
      EXPECT_EQ(span.start, lanes[i].start);
      EXPECT_EQ(span.end, lanes[i].end);
      EXPECT_EQ(span.waited, lanes[i].waited);
    }
  }
}

TEST(Timelines, AWrongFileSaysWhereAndWhy) {
  const std::string rank = R"({"schema":1,"id":"x","measured":null,"predicted":{"ranks":[%]}})";
  const auto with = [&](const std::string& body) {
    std::string text = rank;
    return text.replace(text.find('%'), 1, body);
  };
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"{", "not valid JSON"},
      {"[]", "expected a JSON object"},
      {R"({"schema":2,"id":"x"})", "schema"},
      {R"({"schema":1})", "id"},
      {R"({"schema":1,"id":"x","predicted":[]})", "predicted"},
      {R"({"schema":1,"id":"x","predicted":{"ranks":{}}})", "predicted.ranks: found {}, expected a list"},
      {with("7"), "predicted.ranks[0]: found 7, expected a JSON object"},
      {with(R"({"actions":["0F0"],"start_s":[0],"end_s":[]})"),
       "end_s: found 0 elements, expected one per action, 1"},
      {with(R"({"actions":["0F0"],"start_s":[-1],"end_s":[1]})"),
       "start_s[0]: found -1, expected a number from 0"},
      {with(R"({"actions":["0F0"],"start_s":[1e999],"end_s":[1]})"), "JSON"},
      {with(R"({"actions":["0F0"],"start_s":[2],"end_s":[1]})"), "ends before it starts"},
      {with(R"({"actions":["0F"],"start_s":[1],"end_s":[1]})"), "predicted.ranks[0].actions[0]"},
      {with(R"({"actions":[3],"start_s":[1],"end_s":[1]})"), "actions[0]: found 3, expected a text"},
      {with(R"({"actions":["0F0"],"start_s":[1],"end_s":[1],"peak_bytes":[[1]],"after_bytes":[[1]]})"),
       "8 numbers"},
      {with(R"({"actions":["0F0"],"start_s":[1],"end_s":[1],"peak_bytes":[]})"), "peak_bytes"},
      {with(R"({"actions":["0F0"],"start_s":[1],"end_s":[1],"peak_bytes":[[0,0,0,0,0,0,0,-1]],)"
            R"("after_bytes":[[0,0,0,0,0,0,0,0]]})"),
       "peak_bytes[0]: found [0,0,0,0,0,0,0,-1], expected 8 numbers of bytes, one per category, whole and 0 "
       "or more"},
      {with(R"({"actions":[],"start_s":[],"end_s":[],"lanes":7})"), "lanes"},
      {with(R"({"actions":[],"start_s":[],"end_s":[],"lanes":{"groups":["x"],"start_s":[0],"end_s":[1],)"
            R"("waited_s":[0]}})"),
       "lanes.groups[0]: found \"x\", expected a group such as \"tensor\""},
      {with(R"({"actions":[],"start_s":[],"end_s":[],"lanes":{"groups":["data"],"start_s":[0],"end_s":[],)"
            R"("waited_s":[0]}})"),
       "end_s: found 0 elements, expected one per group, 1"},
      {with(R"({"actions":[],"start_s":[],"end_s":[],"lanes":{"groups":["data"],"start_s":[2],"end_s":[1],)"
            R"("waited_s":[0]}})"),
       "ends before it starts"},
      {with(std::string(40, '[')), "nested deeper"},
      {with(std::string(40, '[') + std::string(40, ']')), "nested deeper"},
  };
  for (const Case& c : cases) {
    try {
      parse_timeline_json(c.text, "file.json");
      ADD_FAILURE() << "accepted: " << c.text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("file.json")) << c.text;
      EXPECT_THAT(error.what(), testing::HasSubstr(c.message)) << c.text;
    }
  }
}

TEST(Timelines, AnIdThatIsNoFileNameHasNoFile) {
  EXPECT_TRUE(timeline_path("dir", "tp2_pp1_dp1-0aF.9"));
  for (const char* id : {"", "..", "../x", "a/b", "a b", ".hidden", "a\nb"})
    EXPECT_FALSE(timeline_path("dir", id));
  EXPECT_FALSE(load_timelines("/nonexistent", "x"));
}

TEST(PackedTimeline, ColumnsHoldTimesAndPartners) {
  const Timeline timeline = sample_timeline();
  const PackedTimeline packed = pack(timeline, &timeline, true);
  const auto events = timeline.trace.ranks[0].size() + timeline.trace.ranks[1].size();
  const auto changes = packed.header["memory"].get<std::size_t>();
  const auto chain = packed.header["chain"].get<std::size_t>();
  ASSERT_EQ(packed.bytes.size(), changes * 8 + (4 * events + chain + changes) * 4 + events * 3 + changes);
  std::vector<std::uint32_t> numbers(4 * events);
  std::memcpy(numbers.data(), packed.bytes.data() + changes * 8, numbers.size() * 4);
  const double tick = packed.header["tick_s"];
  std::size_t i = 0;
  for (const auto& rank : timeline.trace.ranks) {
    for (const Event& event : rank) {
      EXPECT_NEAR(numbers[i] * tick, event.start.value, 1e-8);
      EXPECT_NEAR(numbers[events + i] * tick, (event.end - event.start).value, 1e-8);
      EXPECT_EQ(numbers[2 * events + i], event.action.microbatch);
      EXPECT_EQ(numbers[3 * events + i], i);  // its own partner
      ++i;
    }
  }
  EXPECT_EQ(pack(timeline, nullptr, false).header["memory"], 0);
}

TEST(PackedTimeline, LanesComeLast) {
  Timeline timeline = sample_timeline();
  const std::size_t before = pack(timeline, nullptr, true).bytes.size();
  EXPECT_FALSE(pack(timeline, nullptr, true).header.contains("lanes"));
  timeline.lanes = sample_lanes();
  EXPECT_EQ(pack(timeline, nullptr, true, false).bytes.size(), before);
  const PackedTimeline packed = pack(timeline, nullptr, true);
  EXPECT_EQ(packed.header["lanes"], OrderedJson::parse("[3,1]"));
  const std::size_t at = (before + 3) / 4 * 4;
  ASSERT_EQ(packed.bytes.size(), at + 4 * 13);
  std::vector<std::uint32_t> numbers(12);
  std::memcpy(numbers.data(), packed.bytes.data() + at, 48);
  const double tick = packed.header["tick_s"];
  std::size_t i = 0;
  for (const auto& rank : timeline.lanes) {
    for (const LaneSpan& span : rank) {
      EXPECT_NEAR(numbers[i] * tick, span.start.value, 1e-8);
      EXPECT_NEAR(numbers[4 + i] * tick, (span.end - span.start).value, 1e-8);
      EXPECT_NEAR(numbers[8 + i] * tick, span.waited.value, 1e-8);
      EXPECT_EQ(packed.bytes[at + 48 + i], static_cast<std::uint8_t>(place_of(span.group)));
      ++i;
    }
  }
}

/// The chain goes back without a gap except for messages, and ends where the trace ends.
TEST(CriticalChain, LeadsFromTheStartToTheEnd) {
  for (const std::string_view name : schedule_names()) {
    for (const bool transfers : {false, true}) {
      if (transfers && name.find("vocab") != std::string_view::npos) continue;
      const Schedule schedule = schedule_of(std::string(name), 4, 8, transfers);
      const Trace trace = trace_of(schedule, {0});
      const std::vector<EventAt> chain = critical_chain(trace);
      ASSERT_FALSE(chain.empty()) << name;
      const auto at = [&](EventAt place) { return trace.ranks[place.rank][place.position]; };
      EXPECT_EQ(at(chain.back()).end, trace.makespan()) << name;
      EXPECT_NEAR(at(chain.front()).start.value, 0, 1e-9) << name;
      double covered = 0;
      for (const EventAt place : chain) {
        // No idle time: each begins, or stops waiting, when the one before it ends.
        EXPECT_LE(at(place).start.value, covered + 1e-6) << name << " " << to_string(at(place).action);
        covered = std::max(covered, at(place).end.value);
      }
    }
  }
}

TEST(CriticalChain, NothingAndCirclesEnd) {
  EXPECT_TRUE(critical_chain(Trace{}).empty());
  Trace strange;  // every action at the same moment
  for (std::uint16_t stage = 0; stage < 3; ++stage) {
    std::vector<Event> events;
    for (std::uint32_t m = 0; m < 50; ++m) {
      events.push_back({{ActionType::forward, false, stage, m}, {0}, {0}});
      events.push_back({{ActionType::receive_backward, false, stage, m}, {0}, {0}});
      events.push_back({{ActionType::send_backward, false, stage, m}, {0}, {0}});
      events.push_back({{ActionType::optimizer, false, stage, m}, {0}, {0}});
    }
    strange.ranks.push_back(events);
  }
  EXPECT_LE(critical_chain(strange).size(), 1300U);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TerminalTimeline, OneForwardOneBackward) {
  const Schedule schedule = schedule_of("1f1b", 2, 2, false);
  const std::vector<std::string> lines =
      lines_of(terminal_timeline(schedule, trace_of(schedule, {0}), {52, false, false}));
  ASSERT_EQ(lines.size(), 5U);
  // 9 units of time in 36 columns: F takes 4, B takes 8.
  EXPECT_EQ(lines[1], "rank 0 F0--F1--........B0------....B1------  33.3 %");
  EXPECT_EQ(lines[2], "rank 1 ....F0--B0------F1--B1------........  33.3 %");
  EXPECT_EQ(lines[4], "F forward  B backward  . idle");
}

TEST(TerminalTimeline, FitsAnyWidthWithAndWithoutColour) {
  for (const std::string_view name : schedule_names()) {
    const Schedule schedule = schedule_of(std::string(name), 4, 8, false);
    const Trace trace = trace_of(schedule);
    for (const int width : {0, 1, 40, 80, 133}) {
      const std::string text = terminal_timeline(
          schedule, {{"predicted", trace, nullptr}, {"measured", trace, nullptr}}, {width, false, false});
      EXPECT_EQ(text.find('\033'), std::string::npos);
      for (const std::string& line : lines_of(text))
        EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(width == 0 ? 100 : width, 40)))
            << name << width;
    }
    EXPECT_NE(terminal_timeline(schedule, trace, {80, true, false}).find("\033[48;5;"), std::string::npos);
  }
  EXPECT_EQ(terminal_timeline(Schedule{}, Trace{}, {80, false, false}), "nothing happened\n");
}

}  // namespace
}  // namespace plumbline::report_timelines_test
