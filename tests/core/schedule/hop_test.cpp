// Meaning of SEND and RECV, held against hand-made cases and against every transfer of many schedules.
#include "core/schedule/hop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::hop_test {
namespace {

using enum ActionType;

TEST(Hop, OfEachTypeOfAction) {
  struct Case {
    ActionType type;
    int from;
    int to;
    Payload payload;
    ActionType other_half;
  };
  const Case cases[] = {
      {send_forward, 3, 4, Payload::activation, receive_forward},
      {receive_forward, 2, 3, Payload::activation, send_forward},
      {send_backward, 3, 2, Payload::gradient, receive_backward},
      {receive_backward, 4, 3, Payload::gradient, send_backward},
      {send_teacher, 3, 4, Payload::teacher, receive_teacher},
      {receive_teacher, 2, 3, Payload::teacher, send_teacher},
  };
  std::set<ActionType> seen;
  for (const Case& c : cases) {
    const Action action{c.type, false, 3, 7};
    const std::optional<Hop> hop = hop_of(action);
    ASSERT_TRUE(hop) << name_of(c.type);
    EXPECT_EQ(hop->from, c.from) << name_of(c.type);
    EXPECT_EQ(hop->to(), c.to) << name_of(c.type);
    EXPECT_EQ(hop->payload, c.payload) << name_of(c.type);
    EXPECT_EQ(hop->microbatch, 7U);
    EXPECT_EQ(is_send(c.type) ? send_of(*hop) : receive_of(*hop), action);
    const Action other = is_send(c.type) ? receive_of(*hop) : send_of(*hop);
    EXPECT_EQ(other.type, c.other_half);
    EXPECT_EQ(hop_of(other), hop);
    EXPECT_TRUE(is_transfer(c.type));
    seen.insert(c.type);
  }
  for (int type = 0; type < kActionTypes; ++type) {
    const Action action{static_cast<ActionType>(type), false, 3, 7};
    EXPECT_EQ(hop_of(action).has_value(), seen.contains(action.type)) << name_of(action.type);
    EXPECT_EQ(is_transfer(action.type), seen.contains(action.type)) << name_of(action.type);
  }
}

TEST(Hop, WhatMakesAPayloadAlsoUsesIt) {
  std::set<ActionType> computing_types;
  for (const Payload payload : kAllPayloads) {
    for (const ActionType type : computing(payload)) {
      EXPECT_TRUE(is_compute(type));
      EXPECT_EQ(payload_of(type), payload) << name_of(type);
      computing_types.insert(type);
    }
    EXPECT_EQ(payload_of(sending(payload)), payload);
    EXPECT_EQ(payload_of(receiving(payload)), payload);
    EXPECT_TRUE(is_send(sending(payload)));
    EXPECT_TRUE(is_receive(receiving(payload)));
  }
  EXPECT_EQ(computing_types, (std::set<ActionType>{forward, backward, backward_input, teacher_forward}));
}

TEST(Hop, TagsTellTheMessagesOfAStageApart) {
  std::set<int> tags;
  for (int stage = 0; stage < 5; ++stage) {
    for (const Payload payload : kAllPayloads) tags.insert(tag_of({stage, payload, 3}));
  }
  EXPECT_EQ(tags.size(), 5U * kPayloads);
  EXPECT_EQ(*tags.begin(), 0);
  EXPECT_EQ(*tags.rbegin(), 5 * kPayloads - 1);
}

struct Sizes {
  const char* name;
  int ranks;
  int microbatches;
};

/// One chunk and several, V shapes, two routes, split backwards, vocabulary passes, teachers apart and joint.
const Sizes kSchedules[] = {
    {"gpipe", 4, 6},     {"1f1b", 4, 8},       {"1f1b", 1, 3},     {"interleaved", 4, 8}, {"zb-h1", 4, 8},
    {"zb-v", 4, 8},      {"v-half", 4, 8},     {"dualpipe", 4, 8}, {"dualpipev", 4, 8},   {"vocab-1", 4, 8},
    {"nemo-2504", 4, 8}, {"nemo-13065", 4, 8}, {"abeja", 4, 8},    {"bubble-fill", 4, 8}};

Schedule plain(const Sizes& sizes) {
  ScheduleRequest request;
  request.name = sizes.name;
  request.ranks = sizes.ranks;
  request.microbatches = sizes.microbatches;
  return drop_transfers(make_schedule(request));
}

TEST(Hop, BothHalvesNameOneMessage) {
  for (const Sizes& sizes : kSchedules) {
    SCOPED_TRACE(sizes.name);
    const Schedule schedule = add_transfers(plain(sizes));
    std::map<Hop, int> sent;
    std::map<Hop, int> received;
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
        const std::optional<Hop> hop = hop_of(action);
        if (!hop) continue;
        const Channel channel = channel_of(schedule, *hop);
        EXPECT_NE(channel.from, channel.to) << to_string(action);
        EXPECT_EQ(is_send(action.type) ? channel.from : channel.to, rank) << to_string(action);
        ++(is_send(action.type) ? sent : received)[*hop];
        // The message stays on the route of its micro-batch.
        const int route = schedule.route_of(hop->microbatch);
        EXPECT_EQ(hop->from / schedule.stages_per_route(), route) << to_string(action);
        EXPECT_EQ(hop->to() / schedule.stages_per_route(), route) << to_string(action);
        EXPECT_EQ(hop_from(schedule, hop->from, hop->payload, hop->microbatch), hop);
        EXPECT_EQ(hop_to(schedule, hop->to(), hop->payload, hop->microbatch), hop);
      }
    }
    EXPECT_EQ(sent, received);
    for (const auto& [hop, times] : sent) EXPECT_EQ(times, 1) << to_string(send_of(hop));
  }
}

/// A schedule's hand-overs without transfers are its messages with them.
TEST(Hop, AfterComputingIsWhatIsSent) {
  for (const Sizes& sizes : kSchedules) {
    SCOPED_TRACE(sizes.name);
    const Schedule computing_only = plain(sizes);
    std::set<Hop> handed_on;
    for (const auto& actions : computing_only.actions) {
      for (const Action& action : actions) {
        if (const auto hop = hop_after(computing_only, action)) handed_on.insert(*hop);
      }
    }
    std::set<Hop> sent;
    for (const auto& actions : add_transfers(computing_only).actions) {
      for (const Action& action : actions) {
        if (is_send(action.type)) sent.insert(hop_of_transfer(action));
      }
    }
    EXPECT_EQ(handed_on, sent);
    EXPECT_EQ(sent.empty(), sizes.ranks == 1);
  }
}

}  // namespace
}  // namespace plumbline::hop_test
