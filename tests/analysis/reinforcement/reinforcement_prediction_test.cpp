// A predicted step of reinforcement learning: its phases, their times and memory by placement, and what is
// refused.
#include "analysis/reinforcement/reinforcement_prediction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/reinforcement/fitting_change.hpp"
#include "analysis/reinforcement/response_lengths.hpp"
#include "analysis/reinforcement/rl_framework.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/reinforcement/phases.hpp"
#include "tests/analysis/reinforcement/grpo_config.hpp"

namespace plumbline::reinforcement_prediction_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ReinforcementPrediction predicted(const Overrides& changes = {}) {
  const RunConfig config = test::grpo_config(changes);
  return predict_reinforcement(config, *find_hardware_preset(config.machine.hardware), step_for);
}

const StepPhase& phase_of(const ReinforcementPrediction& made, const std::string& name) {
  const auto found = std::find_if(made.phases.begin(), made.phases.end(),
                                  [&](const StepPhase& phase) { return phase.name == name; });
  if (found == made.phases.end()) throw Error("no phase " + name);
  return *found;
}

/// Sum of all parts whose names begin so.
Bytes part_of(const StepPhase& phase, const std::string& name) {
  Bytes sum;
  for (const MemoryPart& part : phase.memory)
    if (part.name.starts_with(name)) sum += part.bytes;
  return sum;
}

std::vector<std::string> names_of(const ReinforcementPrediction& made) {
  std::vector<std::string> names;
  for (const StepPhase& phase : made.phases) names.push_back(phase.name);
  return names;
}

TEST(ReinforcementPrediction, HasThePhasesOfItsPlacement) {
  EXPECT_THAT(names_of(predicted()),
              ElementsAre("refit", "offload actor", "rollout", "reference log-probabilities", "load actor",
                          "actor log-probabilities", "updates"));
  EXPECT_THAT(names_of(predicted({{"rollout_placement", "resident", ""}, {"kl_loss_coef", "0", ""}})),
              ElementsAre("refit", "rollout", "actor log-probabilities", "updates"));
}

/// A critic with a scalar head: the actor without its output layer and its logits.
TEST(ReinforcementPrediction, TrainsACriticInPpo) {
  const ReinforcementPrediction made = predicted(
      {{"task", "ppo", ""}, {"reward_model", "qwen2.5-7b", ""}, {"rollout_placement", "resident", ""}});
  EXPECT_THAT(names_of(made), ElementsAre("refit", "rollout", "scores", "reference log-probabilities",
                                          "values", "actor log-probabilities", "critic updates", "updates"));
  const StepPhase& update = phase_of(made, "updates");
  const ModelConfig model = test::grpo_config({}).model;
  const Bytes actor = part_of(update, "actor parameters"), critic = part_of(update, "critic parameters");
  const std::int64_t output = model.vocab * model.hidden / 2 * 2;  // bf16, of two tensor ranks
  EXPECT_NEAR(static_cast<double>((actor - critic).value), static_cast<double>(output), 1e6);
  EXPECT_EQ(part_of(update, "reward model parameters"), critic);
  EXPECT_EQ(part_of(update, "reward model"), critic);
  EXPECT_GT(part_of(update, "critic optimizer"), Bytes{});
  EXPECT_LT(phase_of(made, "values").time, phase_of(made, "actor log-probabilities").time);
  EXPECT_LT(phase_of(made, "critic updates").time, update.time);
}

TEST(ReinforcementPrediction, AddsItsPhases) {
  const ReinforcementPrediction made = predicted();
  Seconds sum;
  for (const StepPhase& phase : made.phases) sum += phase.time;
  EXPECT_DOUBLE_EQ(made.step.value, sum.value);
  EXPECT_EQ(made.updates, 2);
  EXPECT_DOUBLE_EQ(phase_of(made, "updates").time.value, 2 * made.update.time.step.value);
  EXPECT_DOUBLE_EQ(made.staleness, 0.5);
  EXPECT_EQ(predicted({{"ppo_epochs", "3", ""}}).updates, 6);
}

/// A framework's work for every tensor of a refit, and its slower copies of optimizer states.
TEST(ReinforcementPrediction, AddsTheWorkOfItsFramework) {
  const ReinforcementPrediction without = predicted(), with = predicted({{"rl_framework", "nemo-rl", ""}});
  const Seconds tensors = framework_costs(RlFramework::nemo_rl).per_tensor * 339.0;
  EXPECT_DOUBLE_EQ(with.refit.time.value, std::max(without.refit.time, tensors).value);
  const Bytes optimizer = part_of(phase_of(with, "updates"), "actor optimizer");
  EXPECT_GT(phase_of(with, "load actor").time.value, static_cast<double>(optimizer.value) / 2.8e9);
  EXPECT_EQ(with.host - without.host, part_of(phase_of(with, "rollout"), "rollout parameters"));
  const ReinforcementPrediction slime = predicted({{"rl_framework", "slime", ""}});
  EXPECT_EQ(phase_of(slime, "load actor").time, phase_of(without, "load actor").time);
}

/// Lengths from a file, in any order, for more responses than it has.
/// verl over FSDP keeps gradients in updates and a reference in its pass, and its engine sleeps otherwise;
/// Megatron-Core keeps its gradients.
TEST(ReinforcementPrediction, ReleasesWhatVerlReleases) {
  const Overrides verl = {{"rollout_placement", "resident", ""}, {"rl_framework", "verl", ""}};
  Overrides sharded = verl;
  for (const auto& [key, value] : {std::pair{"software", "verl"}, std::pair{"zero_stage", "3"},
                                   std::pair{"tensor_model_parallel_size", "1"}})
    sharded.push_back({key, value, ""});
  const ReinforcementPrediction fsdp = predicted(sharded), core = predicted(verl);
  for (const StepPhase& phase : fsdp.phases) {
    EXPECT_EQ(part_of(phase, "reference parameters").value > 0, phase.name == "reference log-probabilities")
        << phase.name;
    EXPECT_EQ(part_of(phase, "actor gradients").value > 0, phase.name == "updates") << phase.name;
    EXPECT_GT(part_of(phase, "actor optimizer"), Bytes{}) << phase.name;
  }
  EXPECT_GT(fsdp.host, Bytes{});
  for (const StepPhase& phase : core.phases) {
    EXPECT_GT(part_of(phase, "actor gradients"), Bytes{}) << phase.name;
    EXPECT_GT(part_of(phase, "reference parameters"), Bytes{}) << phase.name;
    const bool engine = phase.name == "refit" || phase.name == "rollout";
    EXPECT_EQ(part_of(phase, "rollout parameters").value > 0, engine) << phase.name;
    EXPECT_EQ(part_of(phase, "KV cache").value > 0, phase.name == "rollout") << phase.name;
  }
}

/// Adapters train, the reference is the actor with them switched off, and the engine has merged weights. The
/// critic of PPO trains whole.
TEST(ReinforcementPrediction, TrainsAdaptersOfAFrozenActor) {
  const Overrides adapters = {
      {"frozen", "canonical_lora", ""}, {"lora_rank", "64", ""}, {"lora_targets", "all", ""}};
  const ReinforcementPrediction made = predicted(adapters), whole = predicted();
  EXPECT_THAT(names_of(made),
              ElementsAre("refit", "offload actor", "rollout", "load actor", "reference log-probabilities",
                          "actor log-probabilities", "updates"));
  for (const StepPhase& phase : made.phases) EXPECT_EQ(part_of(phase, "reference"), Bytes{}) << phase.name;
  EXPECT_EQ(part_of(phase_of(made, "reference log-probabilities"), "actor parameters"),
            part_of(phase_of(made, "updates"), "actor parameters"));
  // Rank x (inputs + outputs) of all seven layers; Megatron-Bridge splits both matrices.
  const double layer = 64 * (2 * 2 * 3584 + 2 * (3584 + 512) + 3 * (3584 + 18944)) / 2;
  const StepPhase& update = phase_of(made, "updates");
  EXPECT_NEAR(static_cast<double>(part_of(update, "actor optimizer").value), 12 * 28 * layer / 4, 1e6);
  const double base = static_cast<double>(part_of(phase_of(whole, "updates"), "actor parameters").value);
  EXPECT_NEAR(static_cast<double>(part_of(update, "actor parameters").value), base + 2 * 28 * layer, 2e6);
  EXPECT_EQ(part_of(phase_of(made, "rollout"), "rollout parameters"),
            part_of(phase_of(whole, "rollout"), "rollout parameters"));
  Overrides ppo = adapters;
  ppo.push_back({"task", "ppo", ""});
  const ReinforcementPrediction with_critic = predicted(ppo), whole_critic = predicted({{"task", "ppo", ""}});
  EXPECT_EQ(part_of(phase_of(with_critic, "critic updates"), "critic optimizer"),
            part_of(phase_of(whole_critic, "critic updates"), "critic optimizer"));
}

/// verl loads its actor in fp32 before adapters are put in (model_dtype of verl/workers/fsdp_workers.py).
TEST(ReinforcementPrediction, KeepsFrozenWeightsAsTheirSoftwareLoadsThem) {
  const auto actor = [](const char* software) {
    const ReinforcementPrediction made = predicted({{"frozen", "canonical_lora", ""},
                                                    {"software", software, ""},
                                                    {"tensor_model_parallel_size", "1", ""},
                                                    {"zero_stage", "3", ""}});
    return static_cast<double>(part_of(phase_of(made, "updates"), "actor parameters").value);
  };
  const double weights = 7615616512.0;  // of Qwen2.5-7B (its model card: 7.61B)
  EXPECT_NEAR(actor("verl"), 4 * weights / 8, 0.01 * weights);
  EXPECT_NEAR(actor("torchtune"), 2 * weights / 8, 0.01 * weights);
}

TEST(ReinforcementPrediction, TakesLengthsFromAFile) {
  const std::string path = testing::TempDir() + "lengths.txt";
  std::ofstream(path) << "100 300\n200\n9999999\n";
  const Overrides file = {{"response_lengths", path, ""}, {"response_length_mean", "0", ""}};
  const std::vector<std::int64_t> lengths = response_lengths(test::grpo_config(file));
  for (const std::int64_t each : {100, 200, 300, 1536})
    EXPECT_EQ(std::count(lengths.begin(), lengths.end(), each), 32);
  EXPECT_DOUBLE_EQ(predicted(file).rollout.mean_response, (100 + 200 + 300 + 1536) / 4.0);
  for (const char* text : {"", "1 x", "1.5", "0", "-3", "99999999999999999999"}) {
    std::ofstream(path) << text;
    EXPECT_THROW(predicted(file), InputError) << text;
  }
}

TEST(ReinforcementPrediction, OverlapsOneStepOffPolicy) {
  const Overrides pool = {{"rollout_world_size", "8", ""}, {"rollout_placement", "split", ""}};
  const ReinforcementPrediction split = predicted(pool);
  Overrides ahead = pool;
  ahead.push_back({"rollout_placement", "one_step_off", ""});
  const ReinforcementPrediction off = predicted(ahead);
  const Seconds rollout = phase_of(off, "rollout").time, refit = phase_of(off, "refit").time;
  const Seconds training = split.step - rollout - refit;
  EXPECT_NEAR(off.step.value, (refit + std::max(rollout, training)).value, 1e-9);
  EXPECT_EQ(off.gpus, 16);
  EXPECT_TRUE(phase_of(off, "rollout").on_rollout_ranks);
  // Each begins where the one before ends, but for a rollout that is ahead.
  EXPECT_EQ(phase_of(off, "rollout").start, refit);
  EXPECT_EQ(phase_of(off, "reference log-probabilities").start, refit);
  const StepPhase& last = split.phases.back();
  EXPECT_NEAR((last.start + last.time).value, split.step.value, 1e-9);
  EXPECT_NEAR(split.training_idle + split.rollout_idle, 1 - refit / split.step, 1e-9);
  EXPECT_DOUBLE_EQ(off.staleness, 2.5);
}

TEST(ReinforcementPrediction, KeepsOnTheDeviceWhatThePlacementSays) {
  const ReinforcementPrediction offloaded = predicted();
  const ReinforcementPrediction resident = predicted({{"rollout_placement", "resident", ""}});
  const RankMemory& rank = offloaded.update.memory.ranks.front();
  const Bytes parameters = rank.held[Category::parameters];
  const Bytes states = parameters + rank.held[Category::gradients] + rank.held[Category::optimizer];
  EXPECT_EQ(part_of(phase_of(offloaded, "rollout"), "actor"), Bytes{});
  EXPECT_EQ(part_of(phase_of(offloaded, "refit"), "actor parameters"), parameters);
  EXPECT_EQ(part_of(phase_of(offloaded, "updates"), "actor"), states);
  EXPECT_EQ(part_of(phase_of(offloaded, "updates"), "reference parameters"), Bytes{});
  EXPECT_EQ(offloaded.host, parameters * 2 + rank.held[Category::optimizer]);
  EXPECT_EQ(part_of(phase_of(resident, "rollout"), "actor"), states);
  EXPECT_EQ(part_of(phase_of(resident, "updates"), "reference parameters"), parameters);
  EXPECT_GT(part_of(phase_of(resident, "updates"), "KV cache"), Bytes{});
  EXPECT_EQ(resident.host, Bytes{});
  EXPECT_GT(phase_of(resident, "updates").needed, phase_of(offloaded, "updates").needed);
}

/// plumbline's own generation frees its weights and its cache behind the rollout.
TEST(ReinforcementPrediction, KeepsNothingOfItsOwnRollout) {
  const ReinforcementPrediction own = predicted({{"software", "plumbline", ""},
                                                 {"rollout_software", "plumbline", ""},
                                                 {"rollout_placement", "resident", ""},
                                                 {"max_num_seqs", "8", ""}});
  EXPECT_GT(part_of(phase_of(own, "refit"), "rollout parameters"), Bytes{});
  EXPECT_GT(part_of(phase_of(own, "rollout"), "KV cache"), Bytes{});
  for (const char* name : {"actor log-probabilities", "updates"}) {
    EXPECT_EQ(part_of(phase_of(own, name), "rollout parameters"), Bytes{}) << name;
    EXPECT_EQ(part_of(phase_of(own, name), "KV cache"), Bytes{}) << name;
  }
}

/// The engine's weights are those of a model cut over its ranks, its cache has the room that is left.
TEST(ReinforcementPrediction, FillsTheShareOfTheEngine) {
  for (const char* share : {"0.5", "0.8"}) {
    const ReinforcementPrediction made = predicted({{"gpu_memory_utilization", share, ""}});
    const StepPhase& rollout = phase_of(made, "rollout");
    Bytes sum;
    for (const MemoryPart& part : rollout.memory) sum += part.bytes;
    const double taken =
        static_cast<double>(sum.value) / static_cast<double>(made.rollout.at_once.limit.value);
    EXPECT_NEAR(taken, std::stod(share), 0.01);
  }
}

TEST(ReinforcementPrediction, ChangesAsItShould) {
  const ReinforcementPrediction plain = predicted();
  const auto longer = [&](const Overrides& changes) { return predicted(changes).step / plain.step; };
  const Overrides half = {{"response_length_sigma", "0", ""}, {"response_length_mean", "400", ""}};
  EXPECT_LT(longer(half), 0.9);
  EXPECT_GT(longer({{"num_prompts_per_step", "32", ""}}), 1.4);
  EXPECT_GT(longer({{"max_num_seqs", "8", ""}}), 1.2);
  const auto workspace = [](const char* tokens) {
    return part_of(phase_of(predicted({{"max_num_batched_tokens", tokens, ""}}), "rollout"),
                   "rollout workspace");
  };
  EXPECT_EQ(workspace("0"), workspace("8192"));
  EXPECT_LT(workspace("1024"), workspace("8192"));
  EXPECT_LT(longer({{"packed_sequence", "true", ""}}), 0.9);
  EXPECT_LT(longer({{"kl_loss_coef", "0", ""}}), 1);
}

/// Advice that is followed fits.
TEST(FittingChange, Fits) {
  const std::vector<Overrides> too_large = {
      {{"rollout_placement", "resident", ""}, {"gpu_memory_utilization", "0.6", ""}},
      {{"model", "qwen2.5-14b", ""}, {"micro_batch_size", "4", ""}},
  };
  for (const Overrides& changes : too_large) {
    const RunConfig config = test::grpo_config(changes);
    const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
    ASSERT_FALSE(predict_reinforcement(config, hardware, step_for).fits);
    const std::optional<std::string> change = fitting_change(config, hardware, step_for);
    ASSERT_TRUE(change);
    const std::size_t colon = change->find(": ");
    Overrides followed = changes;
    followed.push_back(
        {change->substr(0, colon), change->substr(colon + 2, change->find(" fits") - colon - 2), ""});
    EXPECT_TRUE(predicted(followed).fits) << *change;
  }
}

TEST(Refit, MovesShardsToShardsOrWholeTensors) {
  // Two tensor ranks train. Of four that generate, some have other quarters than theirs.
  for (const auto& [tensor, received] : {std::pair("1", 0.5), {"2", 0.0}, {"4", 0.25}}) {
    const ReinforcementPrediction shards =
        predicted({{"software", "plumbline", ""}, {"rollout_tensor_model_parallel_size", tensor, ""}});
    EXPECT_FALSE(shards.refit.whole);
    EXPECT_EQ(shards.refit.between, Bytes{});
    EXPECT_NEAR(static_cast<double>(shards.refit.inside.value),
                received * static_cast<double>(shards.refit.weights.value), 2)
        << tensor;
  }
  const ReinforcementPrediction whole = predicted();
  EXPECT_TRUE(whole.refit.whole);
  EXPECT_EQ(whole.refit.inside, whole.refit.weights);
  const ReinforcementPrediction pool =
      predicted({{"rollout_world_size", "8", ""}, {"rollout_placement", "split", ""}});
  EXPECT_EQ(pool.refit.between, pool.refit.weights);
  EXPECT_GT(pool.refit.time, whole.refit.time);
}

/// Without messages: tensors are cleared, then copied.
TEST(Refit, FillsTheTensorsOfItsOwnRanks) {
  const ReinforcementPrediction own = predicted({{"software", "plumbline", ""}});
  const double traffic = 3 * static_cast<double>(own.refit.weights.value) / 2;  // over two tensor ranks
  const double bandwidth = find_hardware_preset("h100-sxm-80gb")->memory_bandwidth.value;
  EXPECT_GT(own.refit.time.value, traffic / bandwidth);
  EXPECT_LT(own.refit.time.value, 1.5 * traffic / bandwidth);
}

struct Refusal {
  Overrides changes;
  std::string line;
};

TEST(ReinforcementPrediction, RefusesInOneLine) {
  const std::vector<Refusal> refusals = {
      {{{"num_generations_per_prompt", "1", ""}, {"global_batch_size", "16", ""}},
       "num_generations_per_prompt: found 1 with task grpo"},
      {{{"global_batch_size", "48", ""}}, "global_batch_size: found 48, expected a divisor of"},
      {{{"rollout_placement", "split", ""}}, "rollout_world_size: found 0 with ranks of their own"},
      {{{"rollout_world_size", "8", ""}},
       "rollout_world_size: found 8 with a rollout on the ranks that train"},
      {{{"rollout_tensor_model_parallel_size", "3", ""}}, "rollout_tensor_model_parallel_size: found 3"},
      {{{"response_length_mean", "1600", ""}}, "response_length_mean: found 1600, expected 1 to"},
      {{{"response_length_mean", "0.5", ""}}, "response_length_mean: found 0.5, expected 1 to"},
      {{{"response_lengths", "/lengths.txt", ""}}, "response_lengths: found a file with"},
      {{{"response_lengths", "/no/lengths", ""}, {"response_length_mean", "0", ""}}, "/no/lengths"},
      {{{"reward_model", "gpt2-124m", ""}}, "reward_model: found gpt2-124m with a vocabulary of"},
      {{{"critic", "qwen2.5-7b", ""}}, "critic: found qwen2.5-7b with task grpo"},
      {{{"rollout_software", "megatron-core", ""}}, "rollout_software: found megatron-core, expected"},
      {{{"max_new_tokens", "1600", ""}}, "expected at most seq_length 2048 together"},
      {{{"gpu_memory_utilization", "0.15", ""}, {"rollout_tensor_model_parallel_size", "1", ""}},
       "whose KV cache has room for 0 tokens beside the weights"},
      {{{"frozen", "lora", ""}, {"software", "plumbline", ""}, {"rollout_software", "plumbline", ""}},
       "whose adapters have to be merged"},
      {{{"frozen", "lora", ""}, {"frozen_weights", "nf4", ""}, {"software", "deepspeed", ""}},
       "task: found grpo with frozen_weights nf4, whose engine has weights"},
      {{{"task", "train", ""}}, "task: found train, expected grpo or ppo"},
  };
  for (const Refusal& refusal : refusals) {
    try {
      predicted(refusal.changes);
      ADD_FAILURE() << "not refused: " << refusal.line;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(refusal.line));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plumbline::reinforcement_prediction_test
