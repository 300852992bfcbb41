// The executor against a recording program and a single-rank transport that checks the order of waits.
#include "core/run/executor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline::executor_test {
namespace {

using testing::ElementsAre;

using Log = std::vector<std::string>;

/// Completes everything at once and records the requests.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(const Layout& layout, int rank, Log& log) : Communicator(layout, rank), log_(log) {}
  void barrier(Group) override {}
  Seconds now() const override { return {static_cast<double>(ticks_++)}; }

 private:
  Ticket begin(const Collective&) override { return {}; }
  Ticket begin(const PointToPoint& message) override {
    log_.push_back((message.kind == PointToPoint::Kind::send ? "send to " : "receive from ") +
                   std::to_string(message.peer) + " tag " + std::to_string(message.tag));
    return {next_++};
  }
  Ticket begin(Follower) override { return {}; }
  void finish(Ticket& ticket) override {
    log_.push_back("wait " + std::to_string(ticket.id));
    ticket = {};
  }
  void copy(const Collective&) override {}

  Log& log_;
  std::int64_t next_ = 0;
  mutable int ticks_ = 0;
};

class RecordingProgram final : public StageProgram {
 public:
  explicit RecordingProgram(Log& log) : log_(log) {}
  void run(const Action& action) override { log_.push_back(to_string(action)); }
  Matrix send_buffer(const Action&) override { return {}; }
  Matrix receive_buffer(const Action&) override { return {}; }

 private:
  Log& log_;
};

TEST(Executor, WaitsForASendOnlyBeforeItsBufferIsWrittenAgain) {
  using enum ActionType;
  Schedule schedule;
  schedule.ranks = schedule.stages = 3;
  schedule.microbatches = 2;
  schedule.rank_of_stage = {0, 1, 2};
  schedule.actions.resize(3);
  schedule.actions[1] = {{receive_forward, false, 1, 0}, {forward, false, 1, 0},
                         {send_forward, false, 1, 0},    {receive_backward, false, 1, 0},
                         {backward, false, 1, 0},        {send_backward, false, 1, 0},
                         {receive_forward, false, 1, 1}, {forward, false, 1, 1},
                         {send_forward, false, 1, 1},    {optimizer, false, 1, 0}};
  Log log;
  // Tensor 2 × data 1 × pipeline 3: rank 3 is tensor rank 1 of pipeline rank 1.
  RecordingCommunicator communicator({.tensor = 2, .pipeline = 3, .data = 1}, 3, log);
  RecordingProgram program(log);
  const std::vector<Event> events = execute(schedule, program, communicator, {0});
  EXPECT_THAT(log, ElementsAre("receive from 1 tag 0", "wait 0", "1F0", "send to 5 tag 3",  //
                               "receive from 5 tag 7", "wait 2", "1B0", "send to 1 tag 4",  //
                               "receive from 1 tag 0", "wait 4", "wait 1", "1F1", "send to 5 tag 3", "1OPT0",
                               "wait 5", "wait 3"));
  ASSERT_EQ(events.size(), 10U);
  EXPECT_EQ(events[1].action, (Action{forward, false, 1, 0}));
  for (const Event& event : events) EXPECT_LT(event.start, event.end);
}

TEST(Executor, PostsReceivesBeforeTheComputationInFrontOfThem) {
  using enum ActionType;
  Schedule schedule;
  schedule.ranks = schedule.stages = 3;
  schedule.microbatches = 2;
  schedule.rank_of_stage = {0, 1, 2};
  schedule.actions.resize(3);
  schedule.actions[1] = {{receive_forward, false, 1, 0},  {forward, false, 1, 0},
                         {send_forward, false, 1, 0},     {receive_forward, false, 1, 1},
                         {receive_backward, false, 1, 0}, {forward, true, 1, 1},
                         {backward, false, 1, 0},         {send_backward, false, 1, 0},
                         {receive_backward, false, 1, 1}, {backward, false, 1, 1}};
  Log log;
  RecordingCommunicator communicator({.tensor = 1, .pipeline = 3, .data = 1}, 1, log);
  RecordingProgram program(log);
  execute(schedule, program, communicator, {0}, Receives::ahead);
  // The first in its turn; both of the second group before F0, the last before the second of the pair.
  EXPECT_THAT(log, ElementsAre("receive from 0 tag 0", "wait 0",  //
                               "receive from 0 tag 0", "receive from 2 tag 7", "1F0", "send to 2 tag 3",
                               "wait 1", "wait 2",                                          //
                               "wait 3", "1F1",                                             //
                               "receive from 2 tag 7", "1B0", "send to 0 tag 4", "wait 4",  //
                               "wait 5", "1B1"));
}

}  // namespace
}  // namespace plumbline::executor_test
