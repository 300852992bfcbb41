// Real hangs of other programs, reproduced and caught; their repaired forms pass.
#include "core/validate/deadlock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/schedule_text/schedule_cells.hpp"
#include "core/validate/validate.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"

namespace plumbline::deadlock_test {
namespace {

using testing::HasSubstr;

/// A part of a step, one row per rank, stage s on rank s % ranks.
Schedule part(const std::string& csv, int stages, int microbatches) {
  Schedule schedule;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  std::size_t begin = 0;
  while (begin < csv.size()) {
    const std::size_t end = csv.find('\n', begin);
    auto& actions = schedule.actions.emplace_back();
    // Parsed row by row, since a part does not satisfy the rules of a whole schedule.
    for (std::size_t at = begin; at < end;) {
      const std::size_t comma = std::min(csv.find(',', at), end);
      Action parsed[2];
      parse_cell(trimmed(std::string_view(csv).substr(at, comma - at)), parsed, "part");
      actions.push_back(parsed[0]);
      at = comma + 1;
    }
    begin = end + 1;
  }
  schedule.ranks = static_cast<int>(schedule.actions.size());
  for (int stage = 0; stage < stages; ++stage) schedule.rank_of_stage.push_back(stage % schedule.ranks);
  return schedule;
}

TEST(Deadlock, OneForwardOneBackwardWithPlainBlockingSends) {
  // Every rank sends right after computing: in the steady state neighbours send to each other at once.
  const Schedule schedule = add_transfers(one_f_one_b(4, 8), TransferOrder::sends_first);
  const Deadlock deadlock = find_deadlock(schedule, Ordering::synchronous);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("SEND_F"));
  EXPECT_THAT(deadlock.what, HasSubstr("SEND_B"));
  EXPECT_FALSE(find_deadlock(schedule, Ordering::grouped).found);
  EXPECT_FALSE(find_deadlock(schedule, Ordering::posted_sends).found);
  EXPECT_FALSE(find_deadlock(add_transfers(one_f_one_b(4, 8)), Ordering::synchronous).found);
  EXPECT_THROW(check_deadlock_free(schedule), InputError);
  EXPECT_NO_THROW(check_deadlock_free(add_transfers(one_f_one_b(4, 8))));
}

TEST(Deadlock, FixedOrderOfShapeExchange) {
  // Megatron-LM issue 5100, four ranks. Every rank exchanges with the previous rank first, then with the
  // next, in the same order everywhere and one call at a time.
  const Schedule hang = part(
      "0SEND_F1,0RECV_B0\n1SEND_B0,1RECV_F1,1SEND_F1,1RECV_B0\n2SEND_B0,2RECV_F1,2SEND_F1,2RECV_B0\n"
      "3SEND_B0,3RECV_F1\n",
      4, 2);
  const Deadlock deadlock = find_deadlock(hang, Ordering::synchronous);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("waits for"));
  // Repaired: even ranks send first where odd ranks receive first.
  const Schedule repaired = part(
      "0SEND_F1,0RECV_B0\n1RECV_F1,1SEND_B0,1RECV_B0,1SEND_F1\n2SEND_B0,2RECV_F1,2SEND_F1,2RECV_B0\n"
      "3RECV_F1,3SEND_B0\n",
      4, 2);
  EXPECT_EQ(find_deadlock(repaired, Ordering::synchronous).what, "");
  EXPECT_EQ(find_deadlock(hang, Ordering::grouped).what, "") << "one group per rank has no such order";
}

TEST(Deadlock, LazyCommunicatorsWithInterleaving) {
  // Megatron-LM pull request 5240, P=4 V=2: receives are posted ahead of a rank's sends, and the first call
  // between two ranks builds their communicator together. Each rank first turns to the one before it: a
  // cycle.
  const Schedule hang = part(
      "4RECV_F0,0F0,0SEND_F0\n1RECV_F0,1F0,1SEND_F0\n2RECV_F0,2F0,2SEND_F0\n3RECV_F0,3F0,3SEND_F0\n", 8, 1);
  const Deadlock deadlock = find_deadlock(hang, Ordering::lazy_pairs);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("4RECV_F0"));
  // Repaired: rank 0 sends first. The library's own order has no such cycle either.
  const Schedule repaired = part(
      "0F0,0SEND_F0,4RECV_F0\n1RECV_F0,1F0,1SEND_F0\n2RECV_F0,2F0,2SEND_F0\n3RECV_F0,3F0,3SEND_F0\n", 8, 1);
  EXPECT_EQ(find_deadlock(repaired, Ordering::lazy_pairs).what, "");
  EXPECT_EQ(find_deadlock(add_transfers(interleaved(4, 8, 2, 4)), Ordering::lazy_pairs).what, "");
}

TEST(Deadlock, PreviousAndNextPeerAreTheSameRank) {
  // Megatron-LM pull request 1495, P=2 V=2. Rank 1 sends a gradient to the previous and an activation to the
  // next rank, both rank 0, which takes them in the other order. Without tags each gets the other's message.
  const Schedule hang = part("2RECV_F1,0RECV_B0\n1SEND_B0,1SEND_F1\n", 4, 2);
  const Deadlock deadlock = find_deadlock(hang, Ordering::grouped);
  ASSERT_TRUE(deadlock.found);
  EXPECT_EQ(deadlock.rank, 0);
  EXPECT_EQ(deadlock.position, 0);
  EXPECT_THAT(deadlock.what, HasSubstr("2RECV_F1 (rank 0, column 1) gets the message of 1SEND_B0"));
  EXPECT_EQ(find_deadlock(part("0RECV_B0,2RECV_F1\n1SEND_B0,1SEND_F1\n", 4, 2), Ordering::grouped).what, "");
}

TEST(Deadlock, SendsThatASimulatorTakesForFree) {
  // pytorch issue 172668, P=2 V=2, both forms given there: fine with sends that return at once, hanging
  // otherwise.
  const Schedule both_send = part("0SEND_F1,2RECV_F0,2F0\n1SEND_F0,1RECV_F1,1F1\n", 4, 2);
  EXPECT_TRUE(find_deadlock(both_send, Ordering::synchronous).found);
  EXPECT_EQ(find_deadlock(both_send, Ordering::posted_sends).what, "");
  EXPECT_EQ(
      find_deadlock(part("0SEND_F1,2RECV_F0,2F0\n1RECV_F1,1SEND_F0,1F1\n", 4, 2), Ordering::synchronous).what,
      "");
  const Schedule swapped = part(
      "2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0,2RECV_B1\n3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n", 4, 3);
  const Deadlock deadlock = find_deadlock(swapped, Ordering::synchronous);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("3SEND_B0"));
  EXPECT_THAT(deadlock.what, HasSubstr("0SEND_F2"));
  const Schedule repaired = part(
      "2SEND_F1,0F2,2RECV_B0,0SEND_F2,2B0,2RECV_B1\n3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2\n", 4, 3);
  EXPECT_EQ(find_deadlock(repaired, Ordering::synchronous).what, "");
}

TEST(Deadlock, ReceivesPostedAheadMustNotWaitThere) {
  // GPipe on two ranks. Posting a receive ahead does not change who waits. An executor that waited where it
  // posts would need rank 1's backward before the last forward that this needs.
  EXPECT_EQ(find_deadlock(part("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0\n"
                               "1RECV_F0,1F0,1RECV_F1,1F1,1B1,1SEND_B1,1B0,1SEND_B0\n",
                               2, 2),
                          Ordering::posted_sends)
                .what,
            "");
  const Deadlock deadlock = find_deadlock(part("0F0,0SEND_F0,0RECV_B1,0F1,0SEND_F1,0RECV_B0,0B1,0B0\n"
                                               "1RECV_F0,1RECV_F1,1F0,1F1,1B1,1SEND_B1,1B0,1SEND_B0\n",
                                               2, 2),
                                          Ordering::posted_sends);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("0RECV_B1"));
  // Posted in another order than sent, a receive gets the other micro-batch's message.
  EXPECT_TRUE(
      find_deadlock(part("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0,1F0,1F1\n", 2, 2), Ordering::grouped)
          .found);
}

TEST(Deadlock, MessageWithoutCounterpart) {
  const Deadlock deadlock = find_deadlock(part("0SEND_F0\n1RECV_F1\n", 2, 2), Ordering::synchronous);
  ASSERT_TRUE(deadlock.found);
  EXPECT_THAT(deadlock.what, HasSubstr("1RECV_F1 (rank 1, column 1) gets the message of 0SEND_F0"));
  EXPECT_THAT(find_deadlock(part("0SEND_F0,0SEND_F1\n1RECV_F0\n", 2, 2), Ordering::grouped).what,
              HasSubstr("0SEND_F1 (rank 0, column 2) has no counterpart"));
}

TEST(Deadlock, OneSendBufferIsModelled) {
  // Rank 0 may not compute its second forward before the first was received, and rank 1 receives it last.
  const Schedule schedule = part("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0\n", 2, 2);
  EXPECT_TRUE(find_deadlock(schedule, Ordering::posted_sends).found);
}

}  // namespace
}  // namespace plumbline::deadlock_test
