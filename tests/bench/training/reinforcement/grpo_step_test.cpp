// Steps of GRPO against PyTorch (tests/golden/make_grpo.py), in many splits; and what they leave in memory.
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/training/reinforcement/advantages.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"  // uses PLUMBLINE_SOURCE_DIR

namespace plumbline::reinforcement::grpo_step_test {
namespace {

struct Case {
  const char* name;
  PolicyLossConfig loss;
};
const Case kCases[] = {
    {"token_mean",
     {.clip_low = 0.1, .clip_high = 0.2, .kl_coef = 0.05, .kl = KlEstimator::k3, .entropy_coef = 0.02}},
    {"sequence_mean",
     {.clip_low = 0.2,
      .clip_high = 0.28,
      .kl_coef = 0.1,
      .kl = KlEstimator::k2,
      .aggregation = LossAggregation::sequence_mean}}};

/// One step in this split, against the golden file.
void check_golden(const Case& which, RunConfig config, const std::string& what) {
  const std::string file = fmt::format("{}/tests/golden/grpo/{}", PLUMBLINE_SOURCE_DIR, which.name);
  std::ifstream stream(file + ".json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  config.reinforcement.loss = which.loss;
  RankOfStep rank(config);
  std::vector<std::int32_t> ends(17);
  std::iota(ends.begin(), ends.end(), 100);
  rank.step.end_with(ends);
  rank.step.load(training::initial_weights(config));
  if (rank.step.trains()) rank.step.actor().keep_gradients(true);
  const StepOutcome found = rank.step.run(0);
  std::vector<double> advantages;
  for (std::size_t i = 0; i < found.responses.size(); ++i) {
    const Response& response = found.responses[i];
    ASSERT_EQ(response.ids, golden["responses"][i].get<std::vector<std::int32_t>>()) << what << i;
    if (!rank.step.trains()) continue;
    const std::vector<double> scores(response.log_probabilities.begin(), response.log_probabilities.end());
    expect_near(scores, golden["log_probabilities"][i], 1e-5, what + " log-probability ");
    EXPECT_EQ(response.log_probabilities, response.reference_log_probabilities) << what;
    advantages.push_back(response.advantages.front());
  }
  if (!rank.step.trains()) return;
  expect_near(advantages, golden["advantages"], 1e-5, what + " advantage ");
  expect_near(found.actor.losses, golden["losses"], 1e-5, what + " loss ");
  EXPECT_NEAR(found.actor.gradient_norm / golden["gradient_norms"].back().get<double>(), 1, 1e-5) << what;
  training::Tensors gradients;
  gather_weights(rank.step.actor(), training::Gathered::gradients,
                 [&](training::NamedTensor&& whole) { gradients[whole.name] = std::move(whole.values); });
  if (rank.ranks.all().rank() != 0) return;
  std::string worst;
  const double error = training::largest_error(training::tensors_of(file + ".safetensors"), gradients, worst);
  EXPECT_LE(error, 1e-5) << what << ": " << worst;
  fmt::print("{} {}: largest error of a gradient {:.1e} ({})\n", which.name, what, error, worst);
}

TEST(GrpoStep, EqualsPyTorchInEverySplit) {
  for (const Split& split : splits(training::world_ranks()))
    for (const Case& each : kCases) check_golden(each, split_config(split), name_of(split));
}

TEST(GrpoStep, EqualsPyTorchInTwoPools) {
  for (const Split& split : pools(training::world_ranks()))
    check_golden(kCases[0], split_config(split), name_of(split));
}

/// The first step is that of ranks in turn; the second one's responses are of the weights before it.
TEST(GrpoStep, DrawsOneStepAhead) {
  for (const Split& split : pools(training::world_ranks())) {
    const std::string what = name_of(split);
    RunConfig config = split_config(split);
    const training::SliceReader weights = training::initial_weights(config);
    RankOfStep turns(config), fresh(config);
    config.reinforcement.rollout.placement = RolloutPlacement::one_step_off;
    RankOfStep ahead(config);
    for (RankOfStep* each : {&turns, &fresh, &ahead}) each->step.load(weights);
    const auto ids_of = [](const StepOutcome& of) {
      std::vector<std::vector<std::int32_t>> ids;
      for (const Response& each : of.responses) ids.push_back(each.ids);
      return ids;
    };
    const auto updates = static_cast<double>(plumbline::updates(config));
    for (int step = 0; step < 3; ++step) {
      const StepOutcome in_turn = turns.step.run(step);
      const StepOutcome found = ahead.step.run(step);
      EXPECT_EQ(ids_of(found) == ids_of(in_turn), step == 0) << what << step;
      EXPECT_EQ(found.actor.losses == in_turn.actor.losses, step == 0 || !turns.step.trains())
          << what << step;
      if (step == 1) {
        EXPECT_EQ(ids_of(found), ids_of(fresh.step.run(1))) << what;
      }
      if (!turns.step.trains()) continue;
      EXPECT_EQ(in_turn.actor.staleness, (updates - 1) / 2) << what << step;
      EXPECT_EQ(found.actor.staleness, (updates - 1) / 2 + (step == 0 ? 0 : updates)) << what << step;
    }
  }
}

/// A rank has the states of its own pool alone.
TEST(GrpoStep, PoolsHoldNoMoreThanTheirOwn) {
  for (const Split& split : pools(training::world_ranks())) {
    RankOfStep rank(split_config(split));
    const MemoryBreakdown held = rank.arena.allocated();
    rank.step.load(training::initial_weights(rank.config));
    const StepOutcome found = rank.step.run(0);
    for (int i = 0; i < kPhases; ++i) {
      const auto phase = static_cast<Phase>(i);
      const PhaseMeasurement& measured = found.phases[static_cast<std::size_t>(i)];
      const bool moves = phase == Phase::load_actor || phase == Phase::offload_actor;
      const bool others = phase == Phase::values || phase == Phase::critic_updates ||
                          phase == Phase::reward_scores;  // of models that are not there
      const bool own = phase == Phase::refit || (phase == Phase::rollout) != rank.step.trains();
      EXPECT_EQ(measured.peak.total().value > 0, own && !moves && !others)
          << name_of(split) << phase_name(phase);
      if (rank.step.trains()) {
        EXPECT_EQ(measured.after, own && !moves && !others ? held : MemoryBreakdown()) << phase_name(phase);
        continue;
      }
      EXPECT_EQ(measured.peak[Category::optimizer] + measured.peak[Category::gradients], Bytes{});
      if (phase == Phase::rollout) {
        EXPECT_EQ(measured.after.total(), Bytes{});
      }
    }
    if (rank.step.trains()) {
      EXPECT_EQ(found.phases[0].peak[Category::activations], Bytes{});
    }
  }
}

TEST(GrpoStep, DrawsFromTheNewWeightsWhereverTheyAre) {
  if (training::world_ranks() != 2) GTEST_SKIP() << "two ranks shard";
  const auto second = [](int zero, bool overlap) {
    RunConfig config = split_config({{1, 1, training::world_ranks()}, {1, 1, training::world_ranks()}, zero});
    config.parallel.dp.overlap_param_gather = overlap;
    RankOfStep rank(config);
    rank.step.load(training::initial_weights(config));
    rank.step.run(0);
    return rank.step.run(1);
  };
  const StepOutcome expected = second(1, false);
  for (const int zero : {1, 2, 3}) {
    const StepOutcome found = second(zero, true);
    expect_near(found.actor.losses, expected.actor.losses, 1e-5, fmt::format("zero {} loss ", zero));
    for (std::size_t i = 0; i < found.responses.size(); ++i) {
      const Response& response = found.responses[i];
      const Response& other = expected.responses[i];
      ASSERT_EQ(response.ids, other.ids) << zero;
      for (std::size_t j = 0; j < response.ids.size(); ++j)
        EXPECT_NEAR(response.log_probabilities[j], other.log_probabilities[j], 1e-4) << zero;
      EXPECT_NE(response.log_probabilities, response.reference_log_probabilities) << zero;
    }
  }
}

TEST(GrpoStep, NoPhasesBuffersStay) {
  const Split split = splits(training::world_ranks()).back();
  RunConfig config = split_config(split);
  RankOfStep rank(config);
  const MemoryBreakdown held = rank.arena.allocated();
  rank.step.load(training::initial_weights(config));
  for (int step = 0; step < 2; ++step) {
    const StepOutcome found = rank.step.run(step);
    const auto after = [&](Phase phase) { return found.phases[static_cast<std::size_t>(phase)].after; };
    EXPECT_GT(after(Phase::refit).total().value, held.total().value);  // the model that generates
    for (const Phase phase :
         {Phase::rollout, Phase::actor_scores, Phase::reference_scores, Phase::advantages, Phase::updates})
      EXPECT_EQ(after(phase), held) << phase_name(phase);
  }
}

TEST(GrpoStep, FiveStepsImproveTheReward) {
  if (training::world_ranks() > 1) GTEST_SKIP() << "splits compute the same";
  RunConfig config = grpo_config();
  config.reinforcement.prompts = 8;
  config.reinforcement.group_size = 8;
  config.reinforcement.epochs = 1;
  config.batch.global_batch_size = 32;
  config.optimizer.kind = Optimizer::adam;
  config.optimizer.learning_rate = 0.01;
  RankOfStep rank(config);
  rank.step.load(training::initial_weights(config));
  std::vector<double> rewards;
  for (int step = 0; step < 6; ++step) rewards.push_back(rank.step.run(step).mean_reward);
  fmt::print("rewards: {:.3f}\n", fmt::join(rewards, " "));
  EXPECT_GT(rewards.back(), rewards.front() + 0.1);
}

TEST(Advantages, OfGroups) {
  const std::vector<double> rewards = {1, 3, 5, 5};
  const std::vector<double> found = group_advantages(rewards, 2);
  EXPECT_NEAR(found[0], -0.70710678, 1e-6);
  EXPECT_NEAR(found[1], 0.70710678, 1e-6);
  EXPECT_EQ(found[2], 0);
  EXPECT_EQ(found[3], 0);
  EXPECT_EQ(rule_reward(std::vector<std::int32_t>{0, 57, 58, 116}, 117), 0.5);
}

}  // namespace
}  // namespace plumbline::reinforcement::grpo_step_test
