// The message channels of schedules, and how ranks are assigned to devices.
#include "core/backends/nccl/channels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/backends/nccl/shared_gpu.hpp"
#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::channels_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Schedule built_in(std::string_view name, int ranks, int microbatches) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  return add_transfers(make_schedule(request));
}

Schedule hand_made(std::vector<std::vector<Action>> actions) {
  Schedule schedule;
  schedule.ranks = 2;
  schedule.stages = 4;
  schedule.microbatches = 2;
  schedule.rank_of_stage = {0, 1, 0, 1};
  schedule.actions = std::move(actions);
  return schedule;
}

TEST(Channels, BothDirectionsBetweenNeighbours) {
  const Schedule schedule = built_in("1f1b", 4, 8);
  EXPECT_THAT(channels_of(schedule), ElementsAre(Channel{0, 1}, Channel{1, 0}, Channel{1, 2}, Channel{2, 1},
                                                 Channel{2, 3}, Channel{3, 2}));
}

TEST(Channels, EveryBuiltInScheduleHasOneOrderForBothEnds) {
  for (const std::string_view name : schedule_names()) {
    SCOPED_TRACE(name);
    const std::vector<Channel> channels = channels_of(built_in(name, 4, 16));
    EXPECT_FALSE(channels.empty());
    for (const Channel& channel : channels) EXPECT_NE(channel.from, channel.to);
  }
}

TEST(Channels, PreviousAndNextPeerMayBeOneRank) {
  const Schedule schedule = built_in("interleaved", 2, 8);
  EXPECT_THAT(channels_of(schedule), ElementsAre(Channel{0, 1}, Channel{1, 0}));
}

TEST(Channels, CrossedMessagesAreRefused) {
  // Stage 0's and stage 2's outputs go from rank 0 to rank 1, which wants them the other way round.
  const Schedule schedule =
      hand_made({{{ActionType::send_forward, false, 0, 1}, {ActionType::send_forward, false, 2, 0}},
                 {{ActionType::receive_forward, false, 3, 0}, {ActionType::receive_forward, false, 1, 1}}});
  try {
    channels_of(schedule);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("message 1 from rank 0 to rank 1 is sent as 0SEND_F1 but received as "
                                        "2SEND_F0"));
  }
}

TEST(Channels, AMessageThatNobodyTakesIsRefused) {
  const Schedule schedule = hand_made({{{ActionType::send_forward, false, 0, 1}}, {}});
  EXPECT_THROW(channels_of(schedule), InputError);
}

TEST(SharedGpu, RanksOfOneDeviceTakeTurns) {
  const auto as_list = [](const DeviceSharing& s) { return std::array{s.first, s.turn, s.ranks, s.turns}; };
  const std::vector<std::string> own = {"a", "b"};
  EXPECT_EQ(as_list(sharing_of(own, 1)), (std::array{1, 0, 1, 1}));
  const std::vector<std::string> five_on_two = {"a", "b", "a", "b", "a"};
  EXPECT_EQ(as_list(sharing_of(five_on_two, 0)), (std::array{0, 0, 3, 3}));
  EXPECT_EQ(as_list(sharing_of(five_on_two, 3)), (std::array{1, 1, 2, 3}));
  EXPECT_EQ(as_list(sharing_of(five_on_two, 4)), (std::array{0, 2, 3, 3}));
}

TEST(SharedGpu, EveryRankHasAHostOfItsOwn) {
  const auto first = shared_gpu_settings(0, 22809);
  const auto second = shared_gpu_settings(1, 22809);
  EXPECT_EQ(first.front().first, "NCCL_HOSTID");
  EXPECT_NE(first.front().second, second.front().second);
  EXPECT_THAT(shared_gpu_settings(1, 23003), ElementsAre(testing::Pair("NCCL_MULTI_RANK_GPU_ENABLE", "1")));
}

TEST(SharedGpu, OneHostOfSeveralWithAGpuTooFewIsNamed) {
  EXPECT_NO_THROW(require_own_devices("node2", 8, 8, 16));
  EXPECT_NO_THROW(require_own_devices("node2", 2, 1, 2));  // one host: good for correctness
  EXPECT_THAT([] { require_own_devices("node2", 8, 7, 16); },
              testing::ThrowsMessage<InputError>(HasSubstr("found 8 ranks and 7 GPUs on node2")));
}

TEST(SharedGpu, DevicesHiddenByTheLauncherAreSaid) {
  const std::vector<std::string> used = {"0000:1A:00.0", "0000:1B:00.0"};
  EXPECT_EQ(note_of_hidden_devices(used, 2), "");
  EXPECT_EQ(note_of_hidden_devices({"0000:1A:00.0", "0000:1A:00.0"}, 1), "");
  EXPECT_THAT(note_of_hidden_devices(used, 1), HasSubstr("a rank sees 1 of the 2 GPUs"));
}

}  // namespace
}  // namespace plumbline::channels_test
