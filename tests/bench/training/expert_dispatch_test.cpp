// Rows reach the ranks of their experts and come back: a hundred random routings, ranks without a row
// included.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bench/training/feed_forward/dispatch.hpp"
#include "bench/training/feed_forward/gathered_dispatch.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::expert_dispatch_test {
namespace {

constexpr int kExperts = 8;
constexpr std::int64_t kWidth = 3;

RunConfig config_of(int ranks) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.mixture = {kExperts, 2, true};
  config.batch.seq_length = 6;
  config.batch.global_batch_size = ranks;
  set_layout(config, {1, 1, ranks});
  config.parallel.expert = ranks;
  return config;
}

/// Rows of every rank for each expert; some experts are left out altogether.
std::vector<std::vector<std::int64_t>> random_counts(int seed, int ranks, std::int64_t rows) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const int reached = 1 + seed % kExperts;
  std::vector<std::vector<std::int64_t>> counts(static_cast<std::size_t>(ranks),
                                                std::vector<std::int64_t>(kExperts));
  for (auto& of_rank : counts) {
    for (std::int64_t row = 0; row < rows; ++row)
      ++of_rank[(random() % static_cast<unsigned>(reached) + static_cast<unsigned>(seed / kExperts)) %
                kExperts];
  }
  return counts;
}

/// Tells a row's rank, expert and place among its rank's rows of that expert.
float mark_of(int rank, std::int64_t expert, std::int64_t row) {
  return static_cast<float>(10000 * rank + 100 * expert + row);
}

TEST(ExpertDispatch, RowsOfAHundredRandomRoutingsFindTheirExpertsAndTheWayBack) {
  const int ranks = world_ranks();
  const RunConfig config = config_of(ranks);
  MpiCommunicator communicator(config.layout());
  const int me = communicator.rank();
  const auto operators = make_cpu_operators();
  Arena arena({}, host_memory());
  Seconds spent;
  const TrainingContext context{config, LayerWidths(config), *operators, communicator, arena, spent};
  const std::int64_t local = context.shape.local;
  ASSERT_EQ(local, kExperts / ranks);
  int without = 0;
  for (int seed = 0; seed < 100; ++seed) {
    const auto counts = random_counts(seed, ranks, context.shape.choices);
    const auto& mine = counts[static_cast<std::size_t>(me)];
    Tensor rows = context.make_fp32(kPassing, "rows", context.shape.choices, kWidth);
    std::int64_t at = 0;
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      for (std::int64_t i = 0; i < mine[static_cast<std::size_t>(expert)]; ++i, ++at)
        std::fill_n(rows.matrix().as<float>() + at * kWidth, kWidth, mark_of(me, expert, i));
    }
    std::vector<float> weights(static_cast<std::size_t>(context.shape.choices));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = rows.matrix().as<float>()[i * static_cast<std::size_t>(kWidth)];
    Dispatch dispatch;
    open_dispatch(context, mine, {}, Matrix(weights.data(), 1, context.shape.choices, DType::fp32), dispatch);
    const Tensor here = by_expert(context, dispatch, exchanged(context, dispatch, rows, Exchange::hidden),
                                  kPassing, "rows by expert");
    // By expert, within an expert by rank, within a rank in its order.
    std::int64_t place = 0;
    for (std::int64_t expert = 0; expert < local; ++expert) {
      std::int64_t of_expert = 0;
      for (int from = 0; from < ranks; ++from) {
        const auto global = static_cast<std::size_t>(me * local + expert);
        for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(from)][global];
             ++i, ++place, ++of_expert) {
          const float mark = mark_of(from, static_cast<std::int64_t>(global), i);
          for (std::int64_t col = 0; col < kWidth; ++col)
            ASSERT_EQ(here.matrix().as<float>()[place * kWidth + col], mark) << "seed " << seed;
          ASSERT_EQ(dispatch.weights.matrix().as<float>()[place], mark) << "seed " << seed;
        }
      }
      ASSERT_EQ(dispatch.counts[static_cast<std::size_t>(expert)], of_expert);
    }
    ASSERT_EQ(dispatch.rows, place);
    without += place == 0 ? 1 : 0;
    const Tensor back = returned(context, dispatch, by_rank(context, dispatch, here), Exchange::hidden);
    ASSERT_TRUE(std::equal(back.matrix().as<float>(), back.matrix().as<float>() + back.matrix().elements(),
                           rows.matrix().as<float>()));
  }
  EXPECT_GT(without, 0);
}

/// Every token of every rank chooses k different experts among those that a seed reaches.
Routing random_routing(const TrainingContext& context, int seed, int rank) {
  const LayerWidths& shape = context.shape;
  const std::int64_t top_k = shape.choices / shape.tokens;
  std::mt19937 random(static_cast<std::mt19937::result_type>(100 * seed + rank));
  const unsigned reached = static_cast<unsigned>(top_k + seed % (kExperts - top_k + 1));
  Routing routing;
  routing.chosen = context.arena.allocate(kPassing, "chosen", 1, shape.choices, DType::int32);
  routing.places = context.arena.allocate(kPassing, "places", 1, shape.choices, DType::int32);
  routing.weights = context.make_fp32(kPassing, "weights", 1, shape.choices);
  routing.counts.assign(kExperts, 0);
  auto* chosen = routing.chosen.matrix().as<std::int32_t>();
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    for (std::int64_t j = 0; j < top_k; ++j) {
      const auto same = [&](std::int32_t expert) {
        return std::find(chosen + token * top_k, chosen + token * top_k + j, expert) !=
               chosen + token * top_k + j;
      };
      std::int32_t& expert = chosen[token * top_k + j];
      do {
        expert = static_cast<std::int32_t>((random() % reached + static_cast<unsigned>(seed)) % kExperts);
      } while (same(expert));
      ++routing.counts[static_cast<std::size_t>(expert)];
    }
  }
  std::int32_t row = 0;
  for (std::int32_t expert = 0; expert < kExperts; ++expert) {
    for (std::int64_t choice = 0; choice < shape.choices; ++choice) {
      if (chosen[choice] != expert) continue;
      routing.weights.matrix().as<float>()[row] = mark_of(rank, expert, choice);
      routing.places.matrix().as<std::int32_t>()[choice] = row++;
    }
  }
  return routing;
}

/// The same where all tokens are gathered: each rank works on its own experts' and its part of the sums comes
/// back.
TEST(ExpertDispatch, GatheredTokensOfAHundredRandomRoutingsFindTheirExpertsAndTheWayBack) {
  const int ranks = world_ranks();
  RunConfig config = config_of(ranks);
  config.parallel.ep.token_dispatcher = TokenDispatcher::allgather;
  MpiCommunicator communicator(config.layout());
  const int me = communicator.rank();
  const auto operators = make_cpu_operators();
  Arena arena({}, host_memory());
  Seconds spent;
  const TrainingContext context{config, LayerWidths(config), *operators, communicator, arena, spent};
  const std::int64_t top_k = context.shape.choices / context.shape.tokens;
  int without = 0;
  for (int seed = 0; seed < 100; ++seed) {
    const Routing routing = random_routing(context, seed, me);
    Tensor tokens = context.make_fp32(kPassing, "tokens", context.shape.tokens, kWidth);
    for (std::int64_t i = 0; i < tokens.matrix().elements(); ++i)
      tokens.matrix().as<float>()[i] = mark_of(me, 0, i / kWidth);
    Dispatch dispatch;
    open_gathered_dispatch(context, routing, dispatch);
    const Tensor rows =
        by_expert(context, dispatch, gathered_tokens(context, tokens), kPassing, "rows by expert");
    // By expert, within an expert by rank, within a rank by token, from all ranks' routings.
    std::int64_t row = 0;
    for (std::int64_t expert = 0; expert < context.shape.local; ++expert) {
      std::int64_t of_expert = 0;
      for (int from = 0; from < ranks; ++from) {
        const Routing theirs = random_routing(context, seed, from);
        const auto global = static_cast<std::int32_t>(me * context.shape.local + expert);
        for (std::int64_t choice = 0; choice < context.shape.choices; ++choice) {
          if (theirs.chosen.matrix().as<std::int32_t>()[choice] != global) continue;
          ASSERT_EQ(rows.matrix().as<float>()[row * kWidth], mark_of(from, 0, choice / top_k))
              << "seed " << seed;
          ASSERT_EQ(dispatch.weights.matrix().as<float>()[row], mark_of(from, global, choice));
          ++row;
          ++of_expert;
        }
      }
      ASSERT_EQ(dispatch.counts[static_cast<std::size_t>(expert)], of_expert);
    }
    ASSERT_EQ(dispatch.rows, row);
    without += row == 0 ? 1 : 0;
    const Tensor sums = context.make_fp32(kPassing, "sums", context.shape.tokens, kWidth);
    sum_gathered_choices(context, dispatch, rows, sums);
    for (std::int64_t i = 0; i < sums.matrix().elements(); ++i) {
      ASSERT_EQ(sums.matrix().as<float>()[i], static_cast<float>(top_k) * tokens.matrix().as<float>()[i]);
    }
    Tensor numbers = context.make_fp32(kPassing, "numbers", 2, dispatch.rows);
    std::copy_n(dispatch.weights.matrix().as<float>(), dispatch.rows, numbers.matrix().as<float>());
    const Tensor back = numbers_of_choices(context, dispatch, std::move(numbers));
    ASSERT_TRUE(std::equal(back.matrix().as<float>(), back.matrix().as<float>() + context.shape.choices,
                           routing.weights.matrix().as<float>()));
  }
  EXPECT_GT(without, 0);
}

}  // namespace
}  // namespace plumbline::training::expert_dispatch_test
