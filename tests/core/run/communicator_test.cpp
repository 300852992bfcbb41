// Common part of every transport: refusals, counters, and calls that never reach the transport.
#include "core/run/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/ticket_slots.hpp"

namespace plumbline::communicator_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StrEq;
using testing::ThrowsMessage;

/// Rank 1 of its layout; logs the calls that reach it.
class LoggingCommunicator final : public Communicator {
 public:
  explicit LoggingCommunicator(const Layout& layout) : Communicator(layout, 1) {}
  void barrier(Group) override {}
  Seconds now() const override { return {}; }
  std::vector<std::string> log;

 private:
  Ticket begin(const Collective& call) override {
    log.push_back((call.awaited ? "" : "start_") + std::string(name_of(call.kind)));
    return {next_++};
  }
  Ticket begin(const PointToPoint& message) override {
    log.emplace_back(message.kind == PointToPoint::Kind::send ? "send" : "receive");
    return {next_++};
  }
  Ticket begin(Follower follower) override {
    log.push_back("after " + std::to_string(follower.before.id));
    return {next_++};
  }
  void finish(Ticket& ticket) override {
    log.push_back("wait " + std::to_string(ticket.id));
    ticket = {};
  }
  void copy(const Collective&) override { log.emplace_back("copy"); }

  std::int64_t next_ = 0;
};

/// Two ranks in the tensor and the data group, one in the pipeline group, none in vocab_hidden.
constexpr Layout kLayout{.tensor = 2, .pipeline = 1, .data = 2};

std::vector<float> memory(64);
Matrix numbers(std::int64_t first, std::int64_t count, DType type = DType::fp32) {
  return {&memory[static_cast<std::size_t>(first)], 1, count, type};
}

TEST(Communicator, RefusesWhatCannotBeRight) {
  const Matrix strided(memory.data(), 2, 3, 6, DType::fp32);
  const Matrix four = numbers(0, 4);
  const Matrix eight = numbers(8, 8);
  const Matrix halves = numbers(20, 4, DType::bf16);
  struct Case {
    std::function<void(Communicator&)> call;
    const char* says;
  };
  using C = Communicator;
  const Group tensor = Group::tensor;
  const std::vector<std::int64_t> pieces = {1, 3};
  const std::vector<Case> cases = {
      {[&](C& c) { c.all_reduce(tensor, strided, ReduceOp::sum); },
       "all_reduce: the matrix must be contiguous"},
      {[&](C& c) { c.start_all_reduce(tensor, strided, ReduceOp::max); },
       "start_all_reduce: the matrix must be contiguous"},
      {[&](C& c) {
         c.start_all_reduce_after(
             {}, [] {}, tensor, strided, ReduceOp::sum);
       },
       "start_all_reduce_after: the matrix must be contiguous"},
      {[&](C& c) { c.all_gather(tensor, strided, eight); }, "all_gather: the matrices must be contiguous"},
      {[&](C& c) { c.all_gather(tensor, four, four); },
       "all_gather: the larger matrix must have members x the elements of the smaller one"},
      {[&](C& c) { c.start_all_gather(tensor, halves, eight); },
       "start_all_gather: input and output must have one element type"},
      {[&](C& c) { c.reduce_scatter(tensor, four, eight); },
       "reduce_scatter: the larger matrix must have members x the elements of the smaller one"},
      {[&](C& c) { c.start_reduce_scatter(tensor, eight, strided); },
       "start_reduce_scatter: the matrices must be contiguous"},
      {[&](C& c) { c.all_to_all(tensor, four, eight); },
       "all_to_all: the matrices must have equally many elements"},
      {[&](C& c) { c.all_to_all(tensor, numbers(0, 3), numbers(8, 3)); },
       "all_to_all: the matrices must have a multiple of members elements"},
      {[&](C& c) { c.all_to_all(tensor, four, pieces, eight, pieces); },
       "all_to_all: the pieces must be as many as members and add up to the matrices"},
      {[&](C& c) {
         c.all_to_all(tensor, four, {pieces.data(), 1}, numbers(8, 4), pieces);
       },
       "all_to_all: the pieces must be as many as members and add up to the matrices"},
      {[&](C& c) { c.broadcast(tensor, 2, four); }, "broadcast: the root must be in the group"},
      {[&](C& c) { c.start_broadcast(Group::data, 0, four); },
       "start_broadcast: the root must be in the group"},
      {[&](C& c) { c.start_reduce(tensor, 2, four, numbers(24, 4)); },
       "start_reduce: the root must be in the group"},
      {[&](C& c) { c.start_reduce(tensor, 0, four, eight); },
       "start_reduce: the matrices must have equally many elements"},
      {[&](C& c) { c.broadcast(tensor, 0, strided); }, "broadcast: the matrix must be contiguous"},
      {[&](C& c) { c.all_reduce(Group::vocab_hidden, four, ReduceOp::sum); },
       "rank 1 is not in the vocab_hidden group"},
      {[&](C& c) { c.send(strided, 0, 0); }, "send: the matrix must be contiguous"},
      {[&](C& c) { c.send(four, 1, 0); }, "send: the receiver must be another rank of the world"},
      {[&](C& c) { c.receive(four, 4, 0); }, "receive: the sender must be another rank of the world"},
      {[&](C& c) { c.receive(four, -1, 0); }, "receive: the sender must be another rank of the world"},
  };
  for (const Case& wrong : cases) {
    LoggingCommunicator communicator(kLayout);
    EXPECT_THAT([&] { wrong.call(communicator); }, ThrowsMessage<Error>(StrEq(wrong.says)));
    EXPECT_THAT(communicator.log, IsEmpty()) << wrong.says;
    EXPECT_EQ(communicator.traffic().messages_sent, 0);
    for (const GroupTraffic& group : communicator.traffic().groups) EXPECT_EQ(group.calls, 0) << wrong.says;
  }
}

TEST(Communicator, CountsWholeBuffersOfStartedAndBlockingFormsAlike) {
  LoggingCommunicator communicator(kLayout);
  const Matrix four = numbers(0, 4);
  const Matrix eight = numbers(8, 8);
  communicator.all_reduce(Group::tensor, four, ReduceOp::sum);
  Ticket reduced = communicator.start_all_reduce(Group::tensor, eight, ReduceOp::max);
  Ticket after = communicator.start_all_reduce_after(
      reduced, [] {}, Group::tensor, four, ReduceOp::sum);
  communicator.all_gather(Group::tensor, four, eight);
  communicator.start_reduce_scatter(Group::data, eight, four);
  communicator.broadcast(Group::data, 3, four);
  communicator.wait(after);
  communicator.wait(after);  // done already
  communicator.send(four, 3, 7);
  communicator.receive(eight, 3, 7);
  EXPECT_THAT(communicator.log,
              ElementsAre("all_reduce", "wait 0", "start_all_reduce", "after 1", "all_gather", "wait 3",
                          "start_reduce_scatter", "broadcast", "wait 5", "wait 2", "send", "receive"));
  const GroupTraffic& tensor = communicator.traffic().of(Group::tensor);
  EXPECT_EQ(tensor.calls, 4);
  EXPECT_EQ(tensor.all_reduced.value, 16 + 32 + 16);
  EXPECT_EQ(tensor.all_gathered.value, 32);
  const GroupTraffic& data = communicator.traffic().of(Group::data);
  EXPECT_EQ(data.calls, 2);
  EXPECT_EQ(data.reduce_scattered.value, 32);
  EXPECT_EQ(data.broadcast.value, 16);
  EXPECT_EQ(communicator.traffic().messages_sent, 1);
  EXPECT_EQ(communicator.traffic().point_to_point_sent.value, 16);
}

TEST(Communicator, AGroupOfOneAndEmptyBuffersMoveNothing) {
  LoggingCommunicator communicator(kLayout);
  const Matrix four = numbers(0, 4);
  int prepared = 0;
  const auto prepare = [&] { ++prepared; };
  communicator.all_reduce(Group::pipeline, four, ReduceOp::sum);
  communicator.broadcast(Group::pipeline, 1, four);
  communicator.all_gather(Group::pipeline, four, four);
  EXPECT_FALSE(communicator.start_all_reduce(Group::tensor, numbers(0, 0), ReduceOp::sum));
  EXPECT_FALSE(communicator.start_all_reduce_after({}, prepare, Group::pipeline, four, ReduceOp::sum));
  EXPECT_EQ(prepared, 1);
  EXPECT_THAT(communicator.log, IsEmpty());
  Ticket scattered = communicator.start_reduce_scatter(Group::pipeline, four, numbers(8, 4));
  EXPECT_FALSE(scattered);
  communicator.wait(scattered);
  const Ticket before = communicator.start_all_reduce(Group::tensor, four, ReduceOp::sum);
  EXPECT_FALSE(communicator.start_all_reduce_after(before, prepare, Group::pipeline, four, ReduceOp::sum));
  EXPECT_EQ(prepared, 2);
  EXPECT_THAT(communicator.log, ElementsAre("copy", "start_all_reduce", "wait 0"));
  EXPECT_EQ(communicator.traffic().of(Group::pipeline).calls, 0);
  EXPECT_EQ(communicator.traffic().of(Group::tensor).calls, 1);
}

TEST(TicketSlots, AreUsedAgainAndStayWhereTheyAre) {
  TicketSlots<int> slots;
  EXPECT_TRUE(slots.idle());
  Ticket first = slots.open();
  const Ticket second = slots.open();
  const int* where = &slots[second];
  slots[first] = 5;
  slots[second] = 6;
  const std::int64_t id = first.id;
  slots.close(first);
  EXPECT_FALSE(first);
  EXPECT_FALSE(slots.idle());
  first = slots.open();
  EXPECT_EQ(first.id, id);
  EXPECT_EQ(slots[first], 5);
  for (int i = 0; i < 100; ++i) (void)slots.open();
  EXPECT_EQ(&slots[second], where);
  EXPECT_EQ(slots.all().size(), 102U);
}

}  // namespace
}  // namespace plumbline::communicator_test
