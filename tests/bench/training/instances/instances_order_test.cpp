// Optimizer instances do not hang. The order of a step's messages, taken from the training code rank by rank,
// runs to its end; a rank that sums between instances in another order is detected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/order/message_order.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::instances_order_test {
namespace {

RunConfig config_of(int tensor, int pipeline, int data, int instances, int zero, const char* schedule) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 8;
  config.batch = {.seq_length = 12, .micro_batch_size = 1, .global_batch_size = 4 * data};
  set_emulated(config);
  config.parallel.make_vocab_size_divisible_by = 8;
  set_layout(config, {tensor, pipeline, data});
  config.parallel.pp.schedule = schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.dp.zero_stage = zero;
  config.parallel.dp.optimizer_instances = instances;
  return config;
}

TEST(InstancesOrder, NoScheduleHangs) {
  for (const char* schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "v-half", "dualpipe", "dualpipev"}) {
    for (const int zero : {1, 2, 3}) {
      for (const int instances : {2, 4}) {
        for (const bool overlap : {false, true}) {
          RunConfig config = config_of(2, 2, 4, instances, zero, schedule);
          config.parallel.dp.overlap_grad_reduce = config.parallel.dp.overlap_param_gather = overlap;
          config.parallel.pp.overlap_p2p_comm = instances == 2;
          ASSERT_EQ(why_invalid(config).value_or(""), "");
          EXPECT_EQ(find_hang(calls_of_step(config, schedule_for(config))), "")
              << schedule << " zero " << zero << " instances " << instances << " overlap " << overlap;
        }
      }
    }
  }
}

TEST(InstancesOrder, AnotherOrderOnOneRankIsTold) {
  const RunConfig config = config_of(1, 1, 4, 2, 2, "1f1b");
  std::vector<RankCalls> ranks = calls_of_step(config, schedule_for(config));
  ASSERT_EQ(find_hang(ranks), "");
  RankCalls& calls = ranks[2];
  const auto sums = [](const OrderedCall& call) { return call.name == "all_reduce over between_instances"; };
  ASSERT_GT(std::count_if(calls.begin(), calls.end(), sums), 2);
  const auto first = std::find_if(calls.begin(), calls.end(), sums);
  const auto other = std::find_if(first + 1, calls.end(), [&](const OrderedCall& call) {
    return sums(call) && call.bytes != first->bytes;
  });
  ASSERT_NE(other, calls.end());
  std::swap(first->bytes, other->bytes);
  EXPECT_THAT(find_hang(ranks), testing::HasSubstr("all_reduce over between_instances"));
  std::swap(first->bytes, other->bytes);
  // A sum that one instance leaves out, with its wait.
  const auto ticket = first->ticket;
  std::erase_if(calls, [&](const OrderedCall& call) { return call.ticket == ticket; });
  EXPECT_NE(find_hang(ranks), "");
}

}  // namespace
}  // namespace plumbline::training::instances_order_test
