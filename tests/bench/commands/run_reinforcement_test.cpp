// `plumbline run` of tasks grpo and ppo as a script sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::run_reinforcement_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RunReinforcement : public ProgramFolder {
 protected:
  /// Of the golden llama's weights, or random ones.
  Said run(const std::string& arguments, bool random = false) const {
    const std::string model = fmt::format("{}/tests/golden/llama", PLUMBLINE_SOURCE_DIR);
    write("grpo.yaml", fmt::format("task: grpo\nmodel: {0}/config.json\n{1}"
                                   "num_prompts_per_step: 4\nnum_generations_per_prompt: 4\n"
                                   "rollout_placement: resident\nprompt_length: 6\nmax_new_tokens: 8\n"
                                   "seq_length: 16\nmicro_batch_size: 1\nglobal_batch_size: 8\n"
                                   "precision: fp32\nwarmup_steps: 1\nsteps: 2\n",
                                   model, random ? "" : "weights: " + model + "\n"));
    return plumbline("run grpo.yaml " + arguments);
  }
  /// Smaller than the actor.
  static std::string critic() {
    return "'{\"model_type\": \"llama\", \"vocab_size\": 117, \"hidden_size\": 8, \"intermediate_size\": 12, "
           "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 2, "
           "\"max_position_embeddings\": 64}'";
  }
  /// A rank of the rollout's own.
  static std::string pool() {
    return " --set rollout_world_size=1 --set rollout_tensor_model_parallel_size=1 "
           "--set rollout_pipeline_model_parallel_size=1";
  }
  json measured(const std::string& arguments, bool random = false) const {
    const Said said = run(arguments + " --json", random);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return json::parse(said.out, nullptr, false);
  }
};

TEST_F(RunReinforcement, PrintsTimeAndMemoryOfEveryPhase) {
  const Said said = run("");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* phase : {"refit ", "rollout ", "actor log-probabilities ", "reference log-probabilities ",
                            "advantages ", "updates ", "step "})
    EXPECT_THAT(said.out, HasSubstr(std::string("\n") + phase)) << phase;
  EXPECT_THAT(said.out, HasSubstr("step 3: reward "));
}

/// Predicted and measured phases, a process each, with the times of the JSON.
TEST_F(RunReinforcement, TracesBothTimelines) {
  const json made = measured(
      "--set rollout_placement=one_step_off --set rollout_world_size=1 --trace step.json --svg step.svg");
  std::map<std::string, std::pair<double, double>> found[2];
  std::map<std::string, int> lanes;
  const json events = json::parse(read("step.json"))["traceEvents"];
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    found[event["pid"].get<int>()][event["name"]] = {event["ts"], event["dur"]};
    lanes[event["name"]] = event["tid"];
  }
  for (const json& phase : made["phases"]) {
    std::string name = phase["phase"];
    if (name == "rollout") name += " of the next step";
    const auto& [start, time] = found[1].at(name);
    EXPECT_NEAR(start, 1e6 * phase["start_s"].get<double>(), 1e-3) << name;
    EXPECT_NEAR(time, 1e6 * phase["time_s"].get<double>(), 1e-3) << name;
    EXPECT_EQ(found[0].count(name), name == "advantages" ? 0U : 1U) << name;
    EXPECT_EQ(lanes[name], name == "rollout of the next step" || name == "refit" ? 1 : 0) << name;
  }
  // The picture has both steps, one scale of time, and a bar for each phase of a lane.
  const std::string picture = read("step.svg");
  EXPECT_THAT(picture, HasSubstr(">predicted step of "));
  EXPECT_THAT(picture, HasSubstr(">measured step of "));
  std::size_t bars = 0;
  for (std::size_t at = picture.find("<g><title>"); at != std::string::npos;
       at = picture.find("<g><title>", at + 1))
    ++bars;
  const std::size_t measured_bars = made["phases"].size() + 1;  // a refit is on both lanes
  EXPECT_EQ(bars, 2 * measured_bars - 1);                       // advantages are not predicted
}

TEST_F(RunReinforcement, ShowsTheCriticOfPpo) {
  const Said said = run("--set task=ppo");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* phase : {"values ", "critic updates "})
    EXPECT_THAT(said.out, HasSubstr(std::string("\n") + phase)) << phase;
  EXPECT_THAT(said.out, HasSubstr(", explained variance "));
  const json made = measured("--set task=ppo --set critic=" + critic());
  for (const char* key : {"rewards", "kl", "losses", "critic_losses", "explained_variance"})
    EXPECT_EQ(made[key].size(), 3U) << key;
  EXPECT_GT(made["critic_losses"][0], made["critic_losses"][2]);
  EXPECT_GT(made["critic_gradient_norm"], 0);
}

TEST_F(RunReinforcement, HasTheSameMemoryEmulated) {
  for (const auto& [split, phases] : {
           std::pair<std::string, std::size_t>("--tp 2", 6),
           {"--pp 2 --set rollout_pipeline_model_parallel_size=1 --world-size 2", 6},
           {"--world-size 2 --zero-stage 3", 6},
           {"--tp 2 --set task=ppo", 8},
           {"--pp 2 --set task=ppo --set kl_loss_coef=0 --set critic=" + critic() +
                " --set reward_model=" + critic(),
            8},
           {"--world-size 2 --zero-stage 3 --precision bf16 --set task=ppo", 8},
           {"--world-size 2 --zero-stage 1 --set task=ppo --set rollout_placement=colocated", 10},
           {"--set rollout_placement=split --set rollout_world_size=1", 6},
           {"--tp 2 --set task=ppo --set rollout_placement=split --set rollout_world_size=2 "
            "--set rollout_tensor_model_parallel_size=1",
            8},
           {"--pp 2 --set rollout_placement=one_step_off --set rollout_world_size=1 "
            "--set rollout_pipeline_model_parallel_size=1",
            6},
       }) {
    const json cpu = measured(split);
    const json emulated =
        measured(split + " --backend emulated --emulated-clock virtual --hardware h100-sxm-80gb");
    ASSERT_EQ(cpu["phases"].size(), phases) << split;
    for (std::size_t i = 0; i < cpu["phases"].size(); ++i) {
      const json& one = cpu["phases"][i];
      const json& other = emulated["phases"][i];
      EXPECT_EQ(other["peak_bytes"], one["peak_bytes"]) << split << one["phase"];
      EXPECT_EQ(other["held_bytes"], one["held_bytes"]) << split << one["phase"];
      EXPECT_GE(other["time_s"], 0) << split << one["phase"];
      if (cpu.contains("host_bytes") || cpu.contains("rollout_idle")) continue;
      const json& held = cpu["phases"][i == 0 ? 0 : 1]["held_bytes"];  // the refit's model is freed
      EXPECT_EQ(one["held_bytes"], held) << split << one["phase"];
    }
    EXPECT_EQ(emulated["refit_sent_bytes"], cpu["refit_sent_bytes"]) << split;
    EXPECT_EQ(emulated.value("host_bytes", 0), cpu.value("host_bytes", 0)) << split;
  }
}

/// To the byte, but for a refit with messages, whose rectangles depend on names.
TEST_F(RunReinforcement, PredictsTheMemoryOfPhases) {
  const std::string colocated = " --set rollout_placement=colocated",
                    split = pool() + " --set rollout_placement=split",
                    pipeline =
                        " --set rollout_pipeline_model_parallel_size=2 "
                        "--set rollout_tensor_model_parallel_size=1";
  for (const auto& [arguments, sends] :
       {std::pair<std::string, bool>("", false),
        {"--tp 2 --set task=ppo" + colocated, false},
        {"--tp 2 --sequence-parallel" + pipeline, true},
        {"--pp 2 --precision bf16 --set recompute_granularity=selective", false},
        {"--pp 2 --set task=ppo --set reward_model=" + critic() + split, true},
        {"--tp 2 --set reward_model=" + critic() + colocated, false},
        {"--world-size 2 --zero-stage 1 --set kl_loss_coef=0" + split, true},
        {"--world-size 2 --zero-stage 2 --set task=ppo", false},
        {"--world-size 2 --zero-stage 3 --set task=ppo --precision bf16" + colocated, true}}) {
    for (const json& phase : measured(arguments)["phases"]) {
      const std::string name = phase["phase"];
      if (name == "advantages" || name.ends_with("load actor")) continue;
      const auto found = phase["peak_bytes"].get<double>();
      const auto predicted = phase["predicted_bytes"].get<double>();
      if (name == "refit" && sends) {
        EXPECT_NEAR(predicted / found, 1, 0.05) << arguments << name;
      } else {
        EXPECT_EQ(predicted, found) << arguments << name;
      }
    }
  }
}

/// The critic has a head of its own where the actor's is the embedding, of which both ends have a copy.
TEST_F(RunReinforcement, TrainsTheCriticOfTiedEmbeddingsInAPipeline) {
  const std::string tied = fmt::format(
      "--set task=ppo --set model={0}/tests/golden/gpt2/config.json --set weights={0}/tests/golden/gpt2 ",
      PLUMBLINE_SOURCE_DIR);
  const json one = measured(tied), two = measured(tied + "--pp 2");
  EXPECT_NEAR(two["critic_losses"].back().get<double>() / one["critic_losses"].back().get<double>(), 1, 1e-4);
  for (const char* key : {"gradient_norm", "critic_gradient_norm"})
    EXPECT_NEAR(two[key].get<double>() / one[key].get<double>(), 1, 1e-4) << key;
}

/// Rewards and gradients of actor and critic.
TEST_F(RunReinforcement, SpreadsExpertsOverRanks) {
  const auto numbers = [&](const std::string& split) {
    const json made = measured(
        "--set task=ppo --set model='{\"model_type\": \"mixtral\", \"vocab_size\": 117, "
        "\"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"num_local_experts\": 4, "
        "\"num_experts_per_tok\": 2, \"max_position_embeddings\": 64}' " +
            split,
        true);
    return std::vector<double>{made["rewards"].back(), made["gradient_norm"], made["critic_gradient_norm"],
                               made["critic_losses"].back()};
  };
  const std::vector<double> one = numbers("");
  for (const char* split : {"--world-size 2 --ep 2 --zero-stage 1 --set rollout_placement=colocated",
                            "--tp 2 --sequence-parallel --ep 2 --set expert_tensor_parallel_size=1"}) {
    const std::vector<double> found = numbers(split);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(found[i] / one[i], 1, 1e-4) << split << i;
  }
}

/// Equal numbers bit for bit where the ranks that train have the same layout.
TEST_F(RunReinforcement, ComputesTheSameInTwoPools) {
  for (const std::string split : {"--steps 1", "--steps 1 --tp 2 --set task=ppo"}) {
    const json expected = measured(split);
    const std::string pools = split + pool();
    const json found = measured(pools + " --set rollout_placement=split");
    for (const char* key : {"rewards", "kl", "losses", "gradient_norm"})
      EXPECT_EQ(found[key], expected[key]) << split << key;
    EXPECT_EQ(found["refit_copied_bytes"], 0) << split;
    EXPECT_GT(found["refit_sent_bytes"], 0) << split;
    const json ahead = measured(pools + " --set rollout_placement=one_step_off");
    EXPECT_EQ(ahead["losses"][0], expected["losses"][0]) << split;
    EXPECT_NE(ahead["losses"][1], expected["losses"][1]) << split;
    EXPECT_EQ(found["staleness"].back(), found["predicted_staleness"]) << split;
    EXPECT_EQ(ahead["staleness"].back(), ahead["predicted_staleness"]) << split;
    EXPECT_EQ(ahead["staleness"][0], found["staleness"][0]) << split;
  }
}

/// In virtual time: phases follow each other, or the rollout runs beside training.
TEST_F(RunReinforcement, MeasuresTheIdleTimeOfPools) {
  for (const bool ahead : {false, true}) {
    const json made =
        measured(fmt::format("--set rollout_placement={} --set rollout_world_size=1 --backend emulated "
                             "--emulated-clock virtual --hardware h100-sxm-80gb",
                             ahead ? "one_step_off" : "split"));
    double end = 0, sum = 0;
    std::map<std::string, double> starts;
    for (const json& phase : made["phases"]) {
      starts[phase["phase"]] = phase["start_s"];
      end = std::max(end, phase["start_s"].get<double>() + phase["time_s"].get<double>());
      sum += phase["time_s"].get<double>();
      if (phase.contains("predicted_start_s")) {
        EXPECT_NEAR(phase["start_s"].get<double>() / made["step_s"].get<double>(),
                    phase["predicted_start_s"].get<double>() / made["predicted_step_s"].get<double>(), 0.1)
            << phase["phase"] << ahead;
      }
    }
    EXPECT_NEAR(end / made["step_s"].get<double>(), 1, 0.02) << ahead;
    EXPECT_EQ(sum > 1.1 * made["step_s"].get<double>(), ahead);
    EXPECT_LT(starts["refit"], starts["rollout"]);
    EXPECT_EQ(starts["reference log-probabilities"] < starts["rollout"] + 1e-4, ahead);
    for (const char* idle : {"training_idle", "rollout_idle"})
      EXPECT_NEAR(made[idle].get<double>(), made[fmt::format("predicted_{}", idle)].get<double>(), 0.1)
          << idle << ahead;
  }
  const Said said = run("--set rollout_placement=split --set rollout_world_size=1");
  EXPECT_THAT(said.out, HasSubstr("\nidle: "));
  EXPECT_THAT(said.out, HasSubstr("\nage of the responses' weights: 0.5 updates (predicted 0.5)"));
}

TEST_F(RunReinforcement, RefusesBadInputWithOneLine) {
  for (const auto& [arguments, line] : {
           std::pair("--set task=ppo --set critic=gpt2-124m", "critic: found gpt2-124m"),
           std::pair("--set task=ppo --set reward_model=gpt2-124m", "reward_model: found gpt2-124m"),
           std::pair("--set rollout_placement=split", "rollout_world_size: found 0"),
           std::pair("--set rollout_world_size=2", "rollout_world_size: found 2"),
           std::pair("--set rollout_placement=split --set rollout_world_size=3 "
                     "--set rollout_tensor_model_parallel_size=2",
                     "rollout_tensor_model_parallel_size: found 2"),
           std::pair("--set num_generations_per_prompt=1", "num_generations_per_prompt: found 1"),
           std::pair("--set num_prompts_per_step=3", "global_batch_size: found 8"),
           std::pair("--set rollout_software=vllm", "rollout_software: found"),
           std::pair("--set hidden_dropout=0.1", "hidden_dropout: found"),
           std::pair("--pp 2 --set vocab_parallel=vocab-1", "vocab_parallel: found"),
           std::pair("--set max_new_tokens=11", "prompt_length: found 6"),
           std::pair("--timeline", "--timeline: found"),
       }) {
    const Said said = run(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.err, HasSubstr(line)) << arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

}  // namespace
}  // namespace plumbline::run_reinforcement_test
