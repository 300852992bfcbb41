// Collectives and messages alongside computation do not hang. The order of a step's messages, taken from the
// training code rank by rank, runs to its end; a rank that starts them in another order is detected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/order/message_order.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::overlap_order_test {
namespace {

using testing::HasSubstr;

RunConfig config_of(const Layout& layout, const char* schedule) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 8;
  config.batch = {.seq_length = 16, .micro_batch_size = 1, .global_batch_size = 8 * layout.data};
  set_emulated(config);
  config.parallel.make_vocab_size_divisible_by = 8;
  set_layout(config, layout);
  config.parallel.pp.schedule = schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = config.parallel.tp.comm_overlap = layout.tensor > 1;
  return config;
}

std::vector<RankCalls> calls_of(const RunConfig& config) {
  EXPECT_EQ(why_invalid(config).value_or(""), "");
  return calls_of_step(config, schedule_for(config));
}

TEST(OverlapOrder, NoOverlapHangs) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
                               "dualpipe", "dualpipev"}) {
    for (const Layout& layout : {Layout{2, 2, 4}, Layout{4, 2, 1}, Layout{1, 4, 4}}) {
      for (const int zero : {0, 1, 2, 3}) {
        if (layout.data == 1 && zero > 0) continue;
        RunConfig config = config_of(layout, schedule);
        config.parallel.dp.zero_stage = zero;
        config.parallel.pp.overlap_p2p_comm = true;
        config.parallel.dp.overlap_grad_reduce = layout.tensor > 1;
        if (zero > 0) config.parallel.dp.overlap_param_gather = true;
        if (zero == 3) config.parallel.dp.hpz_partition_size = 2;
        config.parallel.dp.bucket_size = 5000;
        config.parallel.pp.defer_embedding_wgrad_compute = true;
        if (why_invalid(config)) config.parallel.pp.defer_embedding_wgrad_compute = false;
        EXPECT_EQ(find_hang(calls_of(config)), "")
            << schedule << " tp" << layout.tensor << " pp" << layout.pipeline << " dp" << layout.data
            << " zero" << zero;
      }
    }
  }
}

/// Calls of a rank with this name.
std::vector<OrderedCall*> named(RankCalls& calls, const std::string& name) {
  std::vector<OrderedCall*> found;
  for (OrderedCall& call : calls) {
    if (call.name.find(name) != std::string::npos) found.push_back(&call);
  }
  return found;
}

TEST(OverlapOrder, PiecesInAnotherOrderAreTold) {
  const RunConfig config = config_of({4, 1, 1}, "1f1b");
  for (const char* kind : {"broadcast over tensor", "reduce over tensor, root"}) {
    std::vector<RankCalls> ranks = calls_of(config);
    ASSERT_EQ(find_hang(ranks), "");
    const std::vector<OrderedCall*> pieces = named(ranks[2], kind);
    ASSERT_GT(pieces.size(), 4U) << kind;
    std::swap(pieces[0]->name, pieces[1]->name);  // as if the rank began with its neighbour's block
    EXPECT_THAT(find_hang(ranks), HasSubstr(kind));
    std::swap(pieces[0]->name, pieces[1]->name);
    const std::int64_t ticket = pieces[1]->ticket;  // one is left out, with its wait
    std::erase_if(ranks[2], [&](const OrderedCall& call) { return call.ticket == ticket; });
    EXPECT_NE(find_hang(ranks), "") << kind;
  }
}

TEST(OverlapOrder, ReceivesAheadInAnotherOrderAreTold) {
  RunConfig config = config_of({1, 2, 1}, "interleaved");
  config.parallel.pp.overlap_p2p_comm = true;
  std::vector<RankCalls> ranks = calls_of(config);
  ASSERT_EQ(find_hang(ranks), "");
  // A call that is awaited before the send that its sender waits for is started.
  RankCalls& calls = ranks[0];
  const auto receive = std::find_if(calls.begin(), calls.end(), [](const OrderedCall& call) {
    return call.kind == OrderedCall::Kind::receive;
  });
  ASSERT_NE(receive, calls.end());
  const auto wait = std::find_if(receive, calls.end(), [&](const OrderedCall& call) {
    return call.kind == OrderedCall::Kind::wait && call.ticket == receive->ticket;
  });
  ASSERT_NE(wait, calls.end());
  const RankCalls early = {*receive, *wait};
  calls.erase(wait);
  calls.erase(receive);
  calls.insert(calls.begin(), early.begin(), early.end());
  EXPECT_NE(find_hang(ranks), "");
}

TEST(OverlapOrder, ReductionsAndGathersInAnotherOrderAreTold) {
  for (const int zero : {0, 1, 3}) {
    RunConfig config = config_of({1, 1, 4}, "1f1b");
    config.parallel.dp.zero_stage = zero;
    config.parallel.dp.bucket_size = 5000;
    std::vector<RankCalls> ranks = calls_of(config);
    ASSERT_EQ(find_hang(ranks), "");
    const char* const name = zero == 0   ? "all_reduce over data"
                             : zero == 1 ? "reduce_scatter over data"
                                         : "all_gather over data";
    const std::vector<OrderedCall*> calls = named(ranks[3], name);
    const auto other = std::find_if(calls.begin(), calls.end(), [&](const OrderedCall* call) {
      return call->bytes != calls.front()->bytes;
    });
    ASSERT_NE(other, calls.end()) << name;
    std::swap(calls.front()->bytes, (*other)->bytes);
    EXPECT_THAT(find_hang(ranks), HasSubstr(name));
  }
}

}  // namespace
}  // namespace plumbline::training::overlap_order_test
