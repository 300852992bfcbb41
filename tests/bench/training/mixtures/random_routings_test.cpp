// A hundred random routings, ties and experts without tokens among them. In every split loss and gradients
// equal those of one rank, and memory is as predicted for the routing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::random_routings_test {
namespace {

constexpr int kTrials = 100;
constexpr std::int64_t kAlike = 4;  // experts whose routers are the same where there are ties

struct Split {
  Layout layout;  // tensor, pipeline, data
  int expert = 1;
  const char* schedule = "1f1b";
};
constexpr Split kSplits[] = {{{1, 1, 2}, 2},          {{2, 1, 1}},    {{1, 2, 1}, 1, "zb-h1"}, {{1, 1, 2}},
                             {{2, 1, 2}, 2, "zb-h1"}, {{1, 1, 4}, 4}, {{1, 2, 2}, 2, "zb-v"},  {{2, 2, 1}}};

/// Router weights `strength` times as strong as other weights, so that few experts have most tokens. With
/// ties every fourth one's scores are those of the next three, of which two at a time have no tokens.
SliceReader with_routers(std::uint64_t seed, float strength, bool ties) {
  const SliceReader lively = lively_weights(seed);
  return [=](const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride) {
    lively(parameter, slice, out, stride);
    if (parameter.role != "router.weight") return;
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      const float* const from = out + (ties ? row - row % kAlike : row) * stride;
      const float times = from == out + row * stride ? strength : 1;
      std::transform(from, from + slice.cols, out + row * stride, [=](float x) { return times * x; });
    }
  };
}

/// Every third trial drops rows, every third fills experts up.
RunConfig config_of(int trial) {
  RunConfig config;
  config.model = small_mixture(trial % 2 == 0);
  config.model.mixture.experts = 8;
  config.model.layers = 4;
  config.numerics.precision = DType::fp32;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.mixture.aux_loss_coeff = 0.02;
  if (trial % 3 > 0) config.mixture.capacity_factor = trial % 4 < 2 ? 0.7 : 1.3;
  config.mixture.pad_to_capacity = trial % 3 == 2;
  if (trial % 3 > 0 && trial % 5 < 2) config.mixture.drop_policy = TokenDropPolicy::position;
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 4;
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  return config;
}

TEST(RandomRoutings, AreTheSameInEverySplit) {
  std::map<const Split*, std::unique_ptr<MpiCommunicator>> communicators;
  std::vector<const Split*> splits;
  for (const Split& split : kSplits) {
    if (split.layout.world() == world_ranks()) splits.push_back(&split);
  }
  ASSERT_FALSE(splits.empty());
  int without_tokens = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Split& split = *splits[static_cast<std::size_t>(trial) % splits.size()];
    SCOPED_TRACE(fmt::format("trial {} tp{} pp{} ep{}", trial, split.layout.tensor, split.layout.pipeline,
                             split.expert));
    RunConfig config = config_of(trial);
    const SliceReader weights = with_routers(static_cast<std::uint64_t>(trial) + 1,
                                             static_cast<float>(1 + trial % 7), trial % 10 < 3);
    const RunConfig one = config;
    set_layout(config, split.layout);
    config.parallel.expert = split.expert;
    config.parallel.pp.schedule = split.schedule;
    config.parallel.sequence_parallel = split.layout.tensor > 1;
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    std::unique_ptr<MpiCommunicator>& communicator = communicators[&split];
    if (!communicator) communicator = std::make_unique<MpiCommunicator>(config.layout());
    const StepResult found = one_step(config, weights, *communicator);
    expect_routed_memory(config, found);
    for (const RoutedTokens& line : found.routing)
      without_tokens += static_cast<int>(std::count(line.tokens.begin(), line.tokens.end(), 0));
    if (communicator->rank() != 0) continue;
    SoloCommunicator solo;
    const StepResult expected = one_step(one, weights, solo);
    EXPECT_NEAR(found.loss / expected.loss, 1, 1e-5);
    expect_gradients(expected.gradients, found.gradients, 1e-5);
  }
  EXPECT_GT(without_tokens, 100);
}

}  // namespace
}  // namespace plumbline::training::random_routings_test
