// Expert-parallel ranks do not hang. The order of a step's messages, taken from the training code rank by
// rank, runs to its end; a rank that exchanges in another order is detected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/order/message_order.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::expert_order_test {
namespace {

RunConfig config_of(int expert, int tensor, int pipeline, int data, const char* schedule) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.architecture = "mixtral";
  config.model.biases.qkv = config.model.embedding.tied = false;
  config.model.layers = 4;
  config.model.ffn = 16;
  config.model.mixture = {8, 2, true};
  config.batch = {.seq_length = 12, .micro_batch_size = 1, .global_batch_size = 4 * data};
  set_emulated(config);
  config.parallel.make_vocab_size_divisible_by = 8;
  set_layout(config, {tensor, pipeline, data});
  config.parallel.expert = expert;
  config.parallel.sequence_parallel = tensor > 1;
  config.parallel.pp.schedule = schedule;
  return config;
}

TEST(ExpertOrder, NoWayOfSpreadingExpertsHangs) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-v", "v-half", "dualpipe", "dualpipev"}) {
    for (const int expert : {2, 4}) {
      for (const int zero : {0, 1, 2, 3}) {
        RunConfig config = config_of(expert, expert == 2 ? 2 : 1, 2, 4, schedule);
        config.parallel.dp.zero_stage = zero;
        config.parallel.pp.overlap_p2p_comm = zero == 1;
        config.recompute.granularity = zero == 2 ? Recompute::full : Recompute::none;
        for (const auto dispatcher : {TokenDispatcher::alltoall, TokenDispatcher::allgather}) {
          config.parallel.ep.token_dispatcher = dispatcher;
          const bool sends = dispatcher == TokenDispatcher::alltoall;
          config.parallel.dp.overlap_param_gather = zero == 3 || (zero > 0 && sends);
          config.parallel.tp.comm_overlap = expert == 2 && sends;
          config.parallel.dp.hpz_partition_size = zero == 3 && expert == 4 ? 2 : 1;
          config.parallel.dp.optimizer_instances = expert == 2 && zero > 0 && sends ? 2 : 1;
          ASSERT_EQ(why_invalid(config).value_or(""), "");
          EXPECT_EQ(find_hang(calls_of_step(config, schedule_for(config))), "")
              << schedule << " expert " << expert << " zero " << zero << " "
              << token_dispatcher_name(dispatcher);
        }
      }
    }
  }
}

TEST(ExpertOrder, OverlappedPairsDoNotHangUnlessRanksPairOtherwise) {
  for (const char* schedule : {"1f1b", "interleaved", "dualpipe", "dualpipev"}) {
    for (const int expert : {2, 4}) {
      RunConfig config = config_of(expert, expert == 2 ? 2 : 1, 2, 4, schedule);
      config.model.layers = 8;  // two on a stage: counts, whose size is known, meet rows
      if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
      config.parallel.dp.zero_stage = expert == 2 ? 1 : 3;
      config.parallel.dp.overlap_param_gather = true;
      config.parallel.pp.overlap_p2p_comm = expert == 2;
      config.parallel.ep.overlap_comm = true;
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      const Schedule paired = schedule_for(config);
      std::vector<RankCalls> ranks = calls_of_step(config, paired);
      EXPECT_EQ(find_hang(ranks), "") << schedule << " expert " << expert;
      // One rank of an expert group runs its pairs one after the other.
      Schedule single = paired;
      for (std::vector<Action>& actions : single.actions) {
        for (Action& action : actions) action.overlaps_next = false;
      }
      ranks[1] = calls_of_step(config, single)[1];
      EXPECT_NE(find_hang(ranks), "") << schedule << " expert " << expert;
    }
  }
}

TEST(ExpertOrder, ASharedExpertAlongsideExchangesDoesNotHang) {
  for (const char* schedule : {"1f1b", "zb-h1", "dualpipe"}) {
    for (const int slices : {0, 1}) {
      RunConfig config = config_of(2, 2, 2, 2, schedule);
      config.model.mixture.shared = 64;
      config.parallel.expert_tensor = slices;
      config.parallel.dp.zero_stage = slices == 0 ? 3 : 0;
      config.parallel.ep.shared_expert_overlap = true;
      ASSERT_EQ(why_invalid(config).value_or(""), "");
      EXPECT_EQ(find_hang(calls_of_step(config, schedule_for(config))), "") << schedule << " " << slices;
    }
  }
}

TEST(ExpertOrder, AnotherOrderOnOneRankIsTold) {
  const RunConfig config = config_of(2, 1, 1, 2, "1f1b");
  std::vector<RankCalls> ranks = calls_of_step(config, schedule_for(config));
  ASSERT_EQ(find_hang(ranks), "");
  std::vector<std::size_t> exchanges;
  for (std::size_t i = 0; i < ranks[1].size(); ++i) {
    if (ranks[1][i].name == "all_to_all over expert") exchanges.push_back(i);
  }
  ASSERT_GT(exchanges.size(), 2U);
  // Counts, which are equally many on all ranks, after weights.
  std::swap(ranks[1][exchanges[0]].bytes, ranks[1][exchanges[1]].bytes);
  EXPECT_THAT(find_hang(ranks), testing::ContainsRegex("rank 1: all_to_all over expert .* meets"));
  std::swap(ranks[1][exchanges[0]].bytes, ranks[1][exchanges[1]].bytes);
  // An exchange that one rank leaves out, with its wait.
  const auto at = static_cast<std::ptrdiff_t>(exchanges[2]);
  ranks[1].erase(ranks[1].begin() + at, ranks[1].begin() + at + 2);
  EXPECT_NE(find_hang(ranks), "");
}

}  // namespace
}  // namespace plumbline::training::expert_order_test
