// Context ranks do not hang. The order of a step's messages, taken from the training code rank by rank, runs
// to its end with sends that wait for their receives. Orders that would hang, or mix up messages, are
// detected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/order/message_order.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::context_order_test {
namespace {

using testing::ContainsRegex;
using Kind = OrderedCall::Kind;

RunConfig config_of(int context, CpCommType type, int tensor = 1, int pipeline = 1) {
  RunConfig config;
  config.model = small_gpt2();
  config.model.layers = 4;
  config.model.kv_heads = config.model.heads = 8;
  config.model.hidden = config.model.heads * config.model.head_dim;
  config.batch = {.seq_length = 32, .micro_batch_size = 2, .global_batch_size = 16};
  set_emulated(config);
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.world_size = context * tensor * pipeline;
  config.parallel.context = context;
  config.parallel.tensor = tensor;
  config.parallel.pipeline = pipeline;
  config.parallel.sequence_parallel = tensor > 1;
  config.parallel.cp.comm_type = type;
  if (type == CpCommType::a2a_p2p) config.parallel.cp.hierarchical = {2, context / 2};
  return config;
}

constexpr CpCommType kTypes[] = {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a,
                                 CpCommType::a2a_p2p};

TEST(ContextOrder, NoWayOfSharingSequencesHangs) {
  for (const CpCommType type : kTypes) {
    for (const int context : {2, 4, 8}) {
      if (type == CpCommType::a2a_p2p && context == 2) continue;
      for (const char* schedule : {"1f1b", "zb-v"}) {
        const int pipeline = schedule == std::string("zb-v") ? 2 : 1;
        RunConfig config = config_of(context, type, context == 8 ? 1 : 2, pipeline);
        config.parallel.pp.schedule = schedule;
        config.parallel.dp.zero_stage = pipeline == 2 ? 2 : 3;
        config.recompute.granularity = pipeline == 2 ? Recompute::full : Recompute::selective;
        ASSERT_EQ(why_invalid(config).value_or(""), "");
        EXPECT_EQ(find_hang(calls_of_step(config, schedule_for(config))), "")
            << cp_comm_type_name(type) << context << schedule;
      }
    }
  }
}

/// The first call from `from` on that is as asked.
std::size_t find_call(const RankCalls& calls, const std::function<bool(const OrderedCall&)>& wanted,
                      std::size_t from = 0) {
  while (from < calls.size() && !wanted(calls[from])) ++from;
  EXPECT_LT(from, calls.size());
  return from;
}
bool is_send(const OrderedCall& call) {
  return call.kind == Kind::send;
}
bool is_receive(const OrderedCall& call) {
  return call.kind == Kind::receive;
}
bool is_exchange(const OrderedCall& call) {
  return call.name.starts_with("all_to_all");
}
/// Moves the wait for a call right behind it.
void wait_at_once(RankCalls& calls, std::size_t at) {
  const std::int64_t ticket = calls[at].ticket;
  const std::size_t wait = find_call(
      calls, [&](const OrderedCall& c) { return c.kind == Kind::wait && c.ticket == ticket; }, at);
  const OrderedCall moved = calls[wait];
  calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(wait));
  calls.insert(calls.begin() + static_cast<std::ptrdiff_t>(at) + 1, moved);
}

TEST(ContextOrder, FaultsAreFound) {
  struct Fault {
    const char* name;
    CpCommType type;
    std::function<void(std::vector<RankCalls>&)> put_in;
    const char* says;
  };
  const std::vector<Fault> faults = {
      {"every rank receives before it sends", CpCommType::p2p,
       [](std::vector<RankCalls>& ranks) {
         for (RankCalls& calls : ranks) wait_at_once(calls, find_call(calls, is_receive));
       },
       "rank 0 waits in call .* for rank 3 in receive from 3.*rank 3 waits in call .* for rank 2"},
      {"one rank sends the wrong way round", CpCommType::p2p,
       [](std::vector<RankCalls>& ranks) {
         for (OrderedCall& call : ranks[1]) {
           if (call.kind == Kind::send || call.kind == Kind::receive) call.peers = {2 - call.peers.front()};
         }
       },
       "rank . waits in call .* for rank . in (send|receive)"},
      {"one rank leaves out a message", CpCommType::p2p,
       [](std::vector<RankCalls>& ranks) {
         const std::size_t at = find_call(ranks[2], is_send);
         wait_at_once(ranks[2], at);
         ranks[2].erase(ranks[2].begin() + static_cast<std::ptrdiff_t>(at),
                        ranks[2].begin() + static_cast<std::ptrdiff_t>(at) + 2);
       },
       "in receive from 2"},
      {"gradients travel with the tag of keys", CpCommType::p2p,
       [](std::vector<RankCalls>& ranks) {
         for (OrderedCall& call : ranks[3]) {
           if (is_send(call) && call.tag == 2) call.tag = 1;
         }
       },
       "in receive from 3, tag 2"},
      {"one rank exchanges results before queries and keys", CpCommType::a2a,
       [](std::vector<RankCalls>& ranks) {
         const std::size_t first = find_call(ranks[1], is_exchange);
         const std::size_t second = find_call(ranks[1], is_exchange, first + 1);
         std::swap(ranks[1][first].bytes, ranks[1][second].bytes);
       },
       "rank 1: all_to_all over context of .* bytes meets all_to_all over context of"},
      {"a rank of each group starts its ring before the exchange", CpCommType::a2a_p2p,
       [](std::vector<RankCalls>& ranks) {
         for (const std::size_t rank : {std::size_t{0}, std::size_t{3}}) {
           RankCalls& calls = ranks[rank];
           const auto exchange = static_cast<std::ptrdiff_t>(find_call(calls, is_exchange));  // and its wait
           const auto sent = static_cast<std::ptrdiff_t>(find_call(calls, is_send));
           std::rotate(calls.begin() + exchange, calls.begin() + exchange + 2, calls.begin() + sent + 1);
           wait_at_once(calls, find_call(calls, is_receive));
         }
       },
       "rank 0 waits in call .* for rank 2 in receive from 2.*rank 2 waits in call .* for rank 3 in "
       "all_to_all over "
       "context_heads.*rank 1 waits in call .* for rank 0"},
      {"a gather is of another group", CpCommType::all_gather,
       [](std::vector<RankCalls>& ranks) {
         ranks[2][find_call(ranks[2], [](const OrderedCall& c) {
           return c.name == "all_gather over context";
         })].peers = {2, 3};
       },
       "all_gather over context"},
  };
  for (const Fault& fault : faults) {
    const RunConfig config = config_of(4, fault.type);
    std::vector<RankCalls> ranks = calls_of_step(config, schedule_for(config));
    ASSERT_EQ(find_hang(ranks), "") << fault.name;
    fault.put_in(ranks);
    EXPECT_THAT(find_hang(ranks), ContainsRegex(fault.says)) << fault.name;
  }
}

}  // namespace
}  // namespace plumbline::training::context_order_test
