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
  rank.step.actor().keep_gradients(true);
  const StepOutcome found = rank.step.run(0);
  std::vector<double> advantages;
  for (std::size_t i = 0; i < found.responses.size(); ++i) {
    const Response& response = found.responses[i];
    ASSERT_EQ(response.ids, golden["responses"][i].get<std::vector<std::int32_t>>()) << what << i;
    const std::vector<double> scores(response.log_probabilities.begin(), response.log_probabilities.end());
    expect_near(scores, golden["log_probabilities"][i], 1e-5, what + " log-probability ");
    EXPECT_EQ(response.log_probabilities, response.reference_log_probabilities) << what;
    advantages.push_back(response.advantages.front());
  }
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
