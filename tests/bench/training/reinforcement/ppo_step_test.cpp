// Steps of PPO against PyTorch (tests/golden/make_ppo.py), in many splits; and what they leave in memory.
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/training/reinforcement/advantages.hpp"
#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"  // uses PLUMBLINE_SOURCE_DIR

namespace plumbline::reinforcement::ppo_step_test {
namespace {

using nlohmann::json;

struct Case {
  const char* name;
  PolicyLossConfig loss;
  double learning_rate = 0.1;
  bool reward_model = false;
};
const Case kCases[] = {
    {"kl_in_reward",
     {.kl_coef = 0.3, .kl = KlEstimator::k1, .gamma = 1, .gae_lambda = 0.95, .value_clip = 0.05}},
    {"kl_in_loss",
     {.clip_low = 0.1,
      .kl_coef = 0.1,
      .entropy_coef = 0.02,
      .aggregation = LossAggregation::sequence_mean,
      .kl_in_reward = false,
      .gamma = 0.9,
      .gae_lambda = 0.8}},
    {"reward_model", {.kl_coef = 0.1, .kl = KlEstimator::k2, .gamma = 1, .gae_lambda = 0.95}, 0.05, true}};

RunConfig ppo_config(const Split& split) {
  RunConfig config = split_config(split);
  config.generation.task = RunTask::ppo;
  config.reinforcement.prompts = 8;
  config.reinforcement.group_size = 1;
  config.batch.global_batch_size = 4;
  return config;
}

std::string golden_file(const std::string& name) {
  return fmt::format("{}/tests/golden/ppo/{}", PLUMBLINE_SOURCE_DIR, name);
}

/// The golden llama's layers below the head of `model`: critic, reward.
training::SliceReader scalar_weights(const RunConfig& config, const std::string& model) {
  return
      [layers = training::checkpoint_weights(config.files.weights, config.model),
       head = training::checkpoint_weights(golden_file(model + ".safetensors"), critic_config(config).model)](
          const training::Parameter& parameter, const training::Slice& slice, float* out,
          std::int64_t stride) {
        (slice.tensor == "score.weight" ? head : layers)(parameter, slice, out, stride);
      };
}

void check_responses(const StepOutcome& found, const json& golden, const std::string& what) {
  const std::pair<const char*, std::vector<float> Response::*> kNumbers[] = {
      {"log_probabilities", &Response::log_probabilities},
      {"reference", &Response::reference_log_probabilities},
      {"values", &Response::values},
      {"returns", &Response::returns},
      {"advantages", &Response::advantages}};
  for (std::size_t i = 0; i < found.responses.size(); ++i) {
    const Response& response = found.responses[i];
    ASSERT_EQ(response.ids, golden["responses"][i].get<std::vector<std::int32_t>>()) << what << i;
    for (const auto& [name, numbers] : kNumbers) {
      const std::vector<double> wide((response.*numbers).begin(), (response.*numbers).end());
      expect_near(wide, golden[name][i], 1e-5, fmt::format("{} response {} {} ", what, i, name));
    }
  }
}

void check_updates(const Updates& found, const json& golden, const std::string& model,
                   const std::string& what) {
  expect_near(found.losses, golden[model + "_losses"], 1e-5, what + model + " loss ");
  EXPECT_NEAR(found.gradient_norm / golden[model + "_gradient_norm"].get<double>(), 1, 1e-5) << what << model;
}

void check_gradients(RankOfStep& rank, training::RankStages& model, const std::string& file,
                     const std::string& what) {
  training::Tensors gradients;
  gather_weights(model, training::Gathered::gradients,
                 [&](training::NamedTensor&& whole) { gradients[whole.name] = std::move(whole.values); });
  if (rank.ranks.all().rank() != 0) return;
  std::string worst;
  const double error = training::largest_error(training::tensors_of(golden_file(file)), gradients, worst);
  EXPECT_LE(error, 1e-5) << what << file << ": " << worst;
  fmt::print("{} {}: largest error of a gradient {:.1e} ({})\n", file, what, error, worst);
}

/// Two steps in this split, against the golden files.
void check_golden(const Case& which, RunConfig config, const std::string& what) {
  std::ifstream stream(golden_file(fmt::format("{}.json", which.name)));
  const json golden = json::parse(stream);
  config.reinforcement.loss = which.loss;
  config.optimizer.learning_rate = which.learning_rate;
  if (which.reward_model) config.reinforcement.reward = config.model;
  RankOfStep rank(config);
  std::vector<std::int32_t> ends(17);
  std::iota(ends.begin(), ends.end(), 100);
  rank.step.end_with(ends);
  rank.step.load(training::initial_weights(config));
  rank.step.load_critic(scalar_weights(config, "critic"));
  if (which.reward_model) rank.step.load_reward(scalar_weights(config, "reward"));
  if (rank.step.trains()) {
    rank.step.actor().keep_gradients(true);
    rank.step.critic().keep_gradients(true);
  }
  for (int step = 0; step < 2; ++step) {
    const std::string which_step = fmt::format("{} {} step {} ", which.name, what, step);
    const StepOutcome found = rank.step.run(step);
    if (!rank.step.trains()) continue;
    const json& expected = golden["steps"][static_cast<std::size_t>(step)];
    check_responses(found, expected, which_step);
    check_updates(found.critic, expected, "critic", which_step);
    check_updates(found.actor, expected, "actor", which_step);
    EXPECT_NEAR(found.mean_kl, expected["kl"].get<double>(), 1e-5) << which_step;
    EXPECT_NEAR(found.explained_variance, expected["explained_variance"].get<double>(), 1e-4) << which_step;
  }
  if (!rank.step.trains()) return;
  check_gradients(rank, rank.step.critic(), fmt::format("{}.critic.safetensors", which.name), what);
  check_gradients(rank, rank.step.actor(), fmt::format("{}.actor.safetensors", which.name), what);
}

TEST(PpoStep, EqualsPyTorchInEverySplit) {
  for (const Split& split : splits(training::world_ranks()))
    for (const Case& each : kCases) check_golden(each, ppo_config(split), name_of(split));
}

TEST(PpoStep, EqualsPyTorchInTwoPools) {
  for (const Split& split : pools(training::world_ranks()))
    check_golden(kCases[split.zero > 0 ? 1 : 2], ppo_config(split), name_of(split));
}

/// Same bits as with everything on the device, of which it takes less.
TEST(PpoStep, ComputesTheSameColocated) {
  const auto steps_of = [](RunConfig config, RolloutPlacement placement, Bytes& on_host) {
    config.reinforcement.rollout.placement = placement;
    config.reinforcement.reward = config.model;
    RankOfStep rank(config);
    rank.step.load(training::initial_weights(config));
    rank.step.load_critic(scalar_weights(config, "critic"));
    rank.step.load_reward(scalar_weights(config, "reward"));
    std::vector<StepOutcome> made;
    for (int step = 0; step < 2; ++step) made.push_back(rank.step.run(step));
    on_host = rank.step.host_peak();
    return made;
  };
  const std::vector<Split> all = splits(training::world_ranks());
  for (const Split& split : {all.front(), all.back(), all[all.size() / 2]}) {
    RunConfig config = ppo_config(split);
    config.optimizer.kind = Optimizer::adam;
    config.optimizer.learning_rate = 0.01;
    if (split.zero == 3) config.numerics.precision = DType::bf16;
    Bytes none, some;
    const std::vector<StepOutcome> resident = steps_of(config, RolloutPlacement::resident, none);
    const std::vector<StepOutcome> colocated = steps_of(config, RolloutPlacement::colocated, some);
    EXPECT_EQ(none, Bytes{});
    for (std::size_t step = 0; step < resident.size(); ++step) {
      const StepOutcome& one = resident[step];
      const StepOutcome& other = colocated[step];
      EXPECT_EQ(other.actor.losses, one.actor.losses) << name_of(split);
      EXPECT_EQ(other.critic.losses, one.critic.losses) << name_of(split);
      EXPECT_EQ(other.actor.gradient_norm, one.actor.gradient_norm) << name_of(split);
      EXPECT_EQ(other.mean_kl, one.mean_kl) << name_of(split);
      EXPECT_EQ(other.mean_reward, one.mean_reward) << name_of(split);
      for (const Phase phase : {Phase::rollout, Phase::reward_scores, Phase::reference_scores, Phase::values,
                                Phase::actor_scores, Phase::critic_updates, Phase::updates}) {
        const auto peak = [&](const StepOutcome& of) {
          return of.phases[static_cast<std::size_t>(phase)].peak.total();
        };
        EXPECT_LT(peak(other), peak(one)) << name_of(split) << phase_name(phase);
      }
      const MemoryBreakdown& rollout = other.phases[static_cast<std::size_t>(Phase::rollout)].after;
      EXPECT_EQ(rollout[Category::optimizer], Bytes{});
      // No more than vectors stay; the host has all else.
      EXPECT_LT(rollout[Category::parameters].value, some.value / 20) << name_of(split);
    }
  }
}

TEST(PpoStep, NoPhasesBuffersStay) {
  RunConfig config = ppo_config(splits(training::world_ranks()).back());
  config.reinforcement.reward = config.model;
  RankOfStep rank(config);
  const MemoryBreakdown held = rank.arena.allocated();
  rank.step.load(training::initial_weights(config));
  rank.step.load_critic(scalar_weights(config, "critic"));
  rank.step.load_reward(scalar_weights(config, "reward"));
  for (int step = 0; step < 2; ++step) {
    const StepOutcome found = rank.step.run(step);
    for (int phase = static_cast<int>(Phase::rollout); phase < kPhases; ++phase) {
      const PhaseMeasurement& measured = found.phases[static_cast<std::size_t>(phase)];
      if (static_cast<Phase>(phase) == Phase::load_actor) continue;  // only colocated
      EXPECT_EQ(measured.after, held) << phase_name(static_cast<Phase>(phase));
      EXPECT_GE(measured.peak.total().value, held.total().value) << phase;
    }
  }
}

TEST(PpoStep, FiveStepsImproveTheReward) {
  if (training::world_ranks() > 1) GTEST_SKIP() << "splits compute the same";
  RunConfig config = ppo_config(splits(1).front());
  config.reinforcement.prompts = 128;
  config.batch.global_batch_size = 32;
  config.optimizer.kind = Optimizer::adam;
  config.optimizer.learning_rate = 0.02;
  RankOfStep rank(config);
  rank.step.load(training::initial_weights(config));
  rank.step.load_critic(scalar_weights(config, "critic"));
  std::vector<double> rewards, explained;
  for (int step = 0; step < 6; ++step) {
    const StepOutcome found = rank.step.run(step);
    rewards.push_back(found.mean_reward);
    explained.push_back(found.explained_variance);
  }
  fmt::print("rewards: {:.3f}\nexplained variance: {:.2f}\n", fmt::join(rewards, " "),
             fmt::join(explained, " "));
  EXPECT_GT(rewards.back(), rewards.front() + 0.2);
  EXPECT_GT(explained.back(), explained.front());
}

TEST(Advantages, Generalised) {
  const std::vector<double> rewards = {-0.25, 0, 2};
  const std::vector<float> values = {0.5F, 1, -1};
  const std::vector<double> found = generalised_advantages(rewards, values, 0.5, 0.5);
  EXPECT_EQ(found, (std::vector<double>{-0.4375, -0.75, 3}));
  EXPECT_EQ(generalised_advantages(rewards, values, 1, 1), (std::vector<double>{1.25, 1, 3}));
  std::vector<double> same = {2, 2};
  whiten(same);
  EXPECT_EQ(same, (std::vector<double>{0, 0}));
  std::vector<double> one = {3};
  whiten(one);
  EXPECT_EQ(one.front(), 0);
  EXPECT_EQ(explained_variance(std::vector<double>{1, 2, 3}, std::vector<double>{1, 2, 3}), 1);
  EXPECT_EQ(explained_variance(std::vector<double>{1, 1}, std::vector<double>{0, 5}), 0);
}

TEST(Advantages, DivergencesAreSchulmans) {
  EXPECT_EQ(divergence(KlEstimator::k1, -1, -3), 2);
  EXPECT_EQ(divergence(KlEstimator::k2, -1, -3), 2);
  EXPECT_NEAR(divergence(KlEstimator::k3, -1, -3), std::exp(-2.0) + 1, 1e-15);
}

}  // namespace
}  // namespace plumbline::reinforcement::ppo_step_test
