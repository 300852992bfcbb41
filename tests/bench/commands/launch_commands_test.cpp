// Launch files of other frameworks on the command line: explain-config, export, and files in place of CONFIG.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::launch_commands_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class LaunchCommands : public ProgramFolder {};

constexpr const char* kTour = PLUMBLINE_SOURCE_DIR "/bench/tour/train.sh";

TEST_F(LaunchCommands, EveryKeyHasAnOrigin) {
  const nlohmann::json explained = json_of(fmt::format("explain-config {} --json", kTour));
  EXPECT_EQ(explained["framework"], "Megatron-LM");
  EXPECT_TRUE(explained["refused"].empty());
  for (const json& setting : explained["settings"]) EXPECT_NE(setting["origin"], "") << setting;
}

TEST_F(LaunchCommands, AScriptIsPredictedLikeItsExport) {
  const std::string machine = "--hardware h100-sxm-80gb --json";
  const Said script = plumbline(fmt::format("predict {} {}", kTour, machine));
  ASSERT_EQ(script.exit_code, 0) << script.err;
  const Said exported = plumbline(fmt::format("export {} --to megatron-lm", kTour));
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  write("exported.sh", exported.out);
  const Said again = plumbline("predict exported.sh " + machine);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(script.out)["prediction"]["time"]["step_s"],
            json::parse(again.out)["prediction"]["time"]["step_s"]);
  EXPECT_EQ(json::parse(script.out)["prediction"]["memory"]["peak_bytes"],
            json::parse(again.out)["prediction"]["memory"]["peak_bytes"]);
}

TEST_F(LaunchCommands, ASearchExportsTheBestThatTheFrameworkCanSay) {
  const std::string search =
      "search llama-3.1-8b --gpus 8 --hardware h100-sxm-80gb --gbs 8 --seq-length 4096 --top 1 ";
  const Said exported = plumbline(search + "--software torchtitan --export torchtitan");
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("[parallelism]"));
  const Said unknown = plumbline(search + "--export caffe");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--export"));
  EXPECT_EQ(unknown.out, "") << "before the search";
}

/// A host of an NVL72 rack has 4 of its 72 GPUs.
TEST_F(LaunchCommands, NodesAreHosts) {
  const std::pair<const char*, const char*> cases[] = {
      {"h100-sxm-80gb", "--nnodes 2 --nproc-per-node 8 "},
      {"gb200-nvl72", "--nnodes 4 --nproc-per-node 4 "},
      {"gb300-nvl72", "--nnodes 4 --nproc-per-node 4 "},
      {"h200-nvl-141gb", "--nnodes 4 --nproc-per-node 4 "},
      {"gh200-96gb", "--nnodes 16 --nproc-per-node 1 "},
  };
  for (const auto& [hardware, nodes] : cases) {
    const Said said = plumbline(fmt::format(
        "export llama-3.1-8b --hardware {} --gpus 16 --gbs 16 --precision bf16 --to megatron-lm", hardware));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr(nodes)) << hardware;
  }
}

/// Megatron-Bridge gathers parameters alongside computation, Megatron-LM only if it is told to.
TEST_F(LaunchCommands, ChoicesOfThePredictedSoftwareAreStated) {
  for (const auto& [software, stated] : {std::pair{"megatron-bridge", true}, {"megatron-core", false}}) {
    const std::string layout = fmt::format(
        "llama-3.1-8b --hardware h100-sxm-80gb --gpus 8 --gbs 8 --tp 2 --seq-length 4096 "
        "--precision bf16 --zero-stage 1 --software {} ",
        software);
    const Said said = plumbline("export " + layout + "--to megatron-lm");
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(said.out.find("--overlap-param-gather") != std::string::npos, stated) << software;
    const std::string script = write("train.sh", said.out);
    const auto step_of = [&](const std::string& what) {
      return nlohmann::json::parse(plumbline("predict --json " + what).out)["prediction"]["time"]["step_s"];
    };
    EXPECT_EQ(step_of(layout),
              step_of(fmt::format("{} --hardware h100-sxm-80gb --software {}", script, software)));
  }
}

TEST_F(LaunchCommands, AMixtureIsExportedFromSoftwareWithoutOne) {
  const Said said = plumbline(
      "export mixtral-8x7b --gpus 8 --gbs 8 --software torchtitan --precision bf16 --to megatron-lm");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("--num-experts 8"));
}

/// As `predict` takes them: a folder, its config.json, a preset, and a configuration that names one.
TEST_F(LaunchCommands, ModelsAreExplained) {
  fs::create_directory(folder_ / "hf");
  fs::create_directory(folder_ / "empty");
  fs::copy(fs::path(PLUMBLINE_SOURCE_DIR) / "tests/golden/llama/config.json", folder_ / "hf");
  write("run.yaml", "model: hf\nseq_length: 64\n");
  write("wrong.yaml", "model: hf\nseq_length: many\n");
  const std::string words = "(llama, 2 layers, hidden 16)";
  const std::pair<const char*, std::string> cases[] = {
      {"hf", "hf " + words + "  hf/config.json\n"},
      {"hf/", "hf/ " + words + "  hf/config.json\n"},
      {"hf/config.json", "hf/config.json " + words + "  hf/config.json\n"},
      {"run.yaml", "hf " + words + "  run.yaml:1\n"},
      {"llama-3.1-8b", "llama-3.1-8b (llama, 32 layers, hidden 4096)  llama-3.1-8b\n"}};
  for (const auto& [source, line] : cases) {
    const Said said = plumbline(std::string("explain-config ") + source);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr(line)) << source;
  }
  for (const auto& [source, message] : {std::pair("empty", "config.json: no such file"),
                                        {"wrong.yaml", "wrong.yaml:2: seq_length: found \"many\""}}) {
    for (const char* command : {"explain-config", "predict"}) {
      const Said said = plumbline(fmt::format("{} {}", command, source));
      EXPECT_EQ(said.exit_code, 2) << command << ' ' << source;
      EXPECT_THAT(said.err, HasSubstr(message)) << command;
    }
  }
}

/// Every option of a configuration, which the file's values give way to.
TEST_F(LaunchCommands, ExplainTakesTheOptionsOfPredict) {
  const auto value_of = [](const json& explained, const std::string& key) {
    std::string all;
    for (const json& each : explained["settings"])
      if (each["key"] == key)
        all += each["value"].get<std::string>() + " of " + each["origin"].get<std::string>();
    return all;
  };
  write("train.sh",
        "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 2 "
        "--max-position-embeddings 8 --vocab-size 99 --micro-batch-size 1 --seq-length $S "
        "--tensor-model-parallel-size $TP --pipeline-model-parallel-size 3\n");
  write("run.yaml", "model: llama-3.1-8b\nseq_length: 64\n");
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"train.sh --tp 2 --pp 2 --set seq_length=8", "tensor_model_parallel_size", "2 of --tp"},
      {"train.sh --set TP=4 --pp 2 --seq-length 8", "tensor_model_parallel_size",
       "4 of train.sh:1: --tensor-model-parallel-size"},
      {"train.sh --tp 2 --pp 2 --seq-length 8 --hardware h100-sxm-80gb", "hardware",
       "h100-sxm-80gb of --hardware"},
      {"run.yaml --seq-length 128", "seq_length", "128 of --seq-length"},
      {"run.yaml --seq-length 128", "model", "llama-3.1-8b of run.yaml:1"},
      {"--model llama-3.1-8b --gpus 8", "world_size", "8 of --gpus"},
  };
  for (const auto& [arguments, key, value] : cases)
    EXPECT_EQ(value_of(json_of(fmt::format("explain-config {} --json", arguments)), key), value) << arguments;
  const Said refused = plumbline("explain-config run.yaml --seq-length many");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--seq-length: "));
}

/// A job's nodes and arguments, by explain-config and by predict.
TEST_F(LaunchCommands, ASubmittedJobIsRead) {
  write(
      "job.sbatch",
      "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nsrun python pretrain_gpt.py --num-layers 2 "
      "--hidden-size 64 --num-attention-heads 2 --max-position-embeddings 8 --vocab-size 99 --bf16 "
      "--micro-batch-size $1 --seq-length 8\n");
  const std::pair<std::string, const char*> cases[] = {
      {"job.sbatch --script-args '3 4'", "16"},
      {"--megatron-args 'sbatch job.sbatch 3'", "16"},
      {"--megatron-args 'sbatch --nodes=4 job.sbatch 3'", "32"},
  };
  for (const auto& [arguments, gpus] : cases) {
    SCOPED_TRACE(arguments);
    const json explained = json_of(fmt::format("explain-config {} --json", arguments));
    std::map<std::string, std::string> settings;
    for (const json& each : explained["settings"]) settings[each["key"]] = each["value"];
    EXPECT_EQ(settings["world_size"], gpus);
    EXPECT_EQ(settings["micro_batch_size"], "3");
    const Said predicted = plumbline(fmt::format("predict {} --hardware h100-sxm-80gb --json", arguments));
    EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  }
  const Said open = plumbline("explain-config job.sbatch");
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(plumbline("predict sbatch job.sbatch").err, HasSubstr("--megatron-args \"sbatch job.sbatch\""));
  EXPECT_THAT(plumbline("explain-config --script-args '1 2' --gpus 2").err,
              HasSubstr("--script-args: found without a script"));
}

TEST_F(LaunchCommands, RefusalsAreOneLine) {
  const std::string arguments =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 "
      "--vocab-size 99 --micro-batch-size 1 --softmax-type learnable";
  for (const char* command : {"explain-config", "predict"}) {
    const Said said = plumbline(fmt::format("{} --megatron-args \"{}\"", command, arguments));
    EXPECT_EQ(said.exit_code, 2) << command;
    EXPECT_THAT(said.err, HasSubstr("--softmax-type: not modelled")) << command;
  }
  EXPECT_EQ(plumbline("export llama-3.1-8b --to caffe").exit_code, 2);
  EXPECT_EQ(plumbline("explain-config").exit_code, 2);
}

}  // namespace
}  // namespace plumbline::launch_commands_test
