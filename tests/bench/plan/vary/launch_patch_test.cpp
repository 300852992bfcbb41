// Changed lines of launch files: every format, variables of scripts, settings without a line, and files that
// are no files of any format.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "bench/plan/vary/launch_patch.hpp"
#include "bench/plan/vary/line_diff.hpp"
#include "bench/plan/vary/text_edits.hpp"
#include "bench/plan/vary/varied_runs.hpp"
#include "core/base/error.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::launch_patch_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LaunchPatches : public testing::Test, protected test::TemporaryFolder {
 protected:
  LaunchPatch patch(const std::string& file, const std::string& settings, const std::string& given = "") {
    const std::string path = (folder_ / file).string();
    const LoadText load = [&](const std::string& text, const Overrides& beside) {
      return load_run_config(path, beside, nullptr, &text);
    };
    const Overrides kept = given.empty() ? Overrides() : varied_settings(given, "--set");
    return patch_launch(path, kept, varied_settings(settings, "--vary"), load);
  }
};

/// Lines that a diff takes away and adds, without its head.
std::vector<std::string> changed_lines(const std::string& diff) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < diff.size();) {
    const std::size_t end = diff.find('\n', at);
    const std::string line = diff.substr(at, end - at);
    if ((line.starts_with('-') || line.starts_with('+')) && !line.starts_with("---") &&
        !line.starts_with("+++"))
      lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

constexpr const char* kScript = R"(#!/bin/bash
# Not --tensor-model-parallel-size 8 of a comment.
TP=2
PP=${PP:-1}
NNODES=2
MODEL=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope
  --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
  --vocab-size 128256
)
ARGS="
    --micro-batch-size 1
    --global-batch-size 128
    --bf16
"
torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py ${MODEL[@]} $ARGS \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \
  --sequence-parallel --use-distributed-optimizer
)";

constexpr const char* kRun =
    "model: llama-3.1-8b   # a preset\nhardware: h100-sxm-80gb\ntp: 2\nworld_size: 16\n"
    "global_batch_size: 64 # sequences\nprecision: bf16\n";

constexpr const char* kTitan = R"([model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 1
seq_len = 8192

[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 1

[activation_checkpoint]
mode = "none"
)";

constexpr const char* kDeepSpeed =
    "{\n  \"train_micro_batch_size_per_gpu\": 1,\n  \"train_batch_size\": 64,\n"
    "  \"bf16\": {\"enabled\": true},\n  \"zero_optimization\": {\n    \"stage\": 1\n  }\n}\n";

constexpr const char* kTrainer =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\n"
    "gradient_accumulation_steps: 4\nbf16: true\nmax_seq_length: 4096\ngradient_checkpointing: false\n";

/// In every format, the patch is the lines of that file alone, and reading them back gives the setting.
TEST_F(LaunchPatches, ChangeTheLinesOfEveryFormat) {
  write("train.sh", kScript);
  write("run.yaml", kRun);
  write("train.toml", kTitan);
  write("ds.json", kDeepSpeed);
  write("sft.yaml", kTrainer);
  struct Case {
    const char* file;
    const char* settings;
    const char* given;
    std::vector<std::string> lines;
  };
  const std::string deepspeed = "model=llama-3.1-8b,world_size=8";
  const Case cases[] = {
      {"train.sh", "tp=4", "", {"-TP=2", "+TP=4"}},
      {"train.sh", "pp=2", "", {"-PP=${PP:-1}", "+PP=${PP:-2}"}},
      {"train.sh", "PP=2", "", {"-PP=${PP:-1}", "+PP=${PP:-2}"}},
      {"train.sh", "gpus=32", "", {"-NNODES=2", "+NNODES=4"}},
      {"train.sh", "mbs=2", "", {"-    --micro-batch-size 1", "+    --micro-batch-size 2"}},
      {"train.sh", "gbs=256", "", {"-    --global-batch-size 128", "+    --global-batch-size 256"}},
      {"train.sh",
       "recompute_granularity=full",
       "",
       {"-    --micro-batch-size 1",
        "+    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
        "--micro-batch-size 1"}},
      {"train.sh",
       "sequence_parallel=false",
       "",
       {"-  --sequence-parallel --use-distributed-optimizer", "+  --use-distributed-optimizer"}},
      {"run.yaml", "tp=4", "", {"-tp: 2", "+tp: 4"}},
      {"run.yaml",
       "tensor_model_parallel_size=4,gbs=128",
       "",
       {"-tp: 2", "-global_batch_size: 64 # sequences", "+tp: 4", "+global_batch_size: 128 # sequences"}},
      {"run.yaml", "recompute_granularity=full", "", {"+recompute_granularity: full"}},
      {"run.yaml", "hardware=a100-sxm-80gb", "", {"-hardware: h100-sxm-80gb", "+hardware: a100-sxm-80gb"}},
      {"train.toml", "recompute_granularity=full", "", {"-mode = \"none\"", "+mode = \"full\""}},
      {"train.toml", "mbs=2", "gbs=64", {"-local_batch_size = 1", "+local_batch_size = 2"}},
      {"train.toml", "pp=2", "world_size=16,gbs=64", {"+pipeline_parallel_degree = 2"}},
      {"ds.json", "zero_stage=2", deepspeed.c_str(), {"-    \"stage\": 1", "+    \"stage\": 2"}},
      {"ds.json",
       "gbs=128",
       deepspeed.c_str(),
       {"-  \"train_batch_size\": 64,", "+  \"train_batch_size\": 128,"}},
      {"sft.yaml",
       "recompute_granularity=full",
       "world_size=8",
       {"-gradient_checkpointing: false", "+gradient_checkpointing: true"}},
      {"sft.yaml",
       "mbs=2",
       "world_size=8,gbs=32",
       {"-per_device_train_batch_size: 1", "+per_device_train_batch_size: 2"}},
  };
  for (const Case& each : cases) {
    const std::string what = fmt::format("{} {}", each.file, each.settings);
    const LaunchPatch made = patch(each.file, each.settings, each.given);
    EXPECT_THAT(made.notes,
                testing::SizeIs(
                    each.file == std::string("train.toml") && std::string(each.settings) == "pp=2" ? 1 : 0))
        << what;
    std::vector<std::string> lines = changed_lines(made.diff);
    EXPECT_EQ(lines.size(), each.lines.size()) << what << '\n' << made.diff;
    for (const std::string& line : each.lines) EXPECT_THAT(lines, testing::Contains(line)) << what;
  }
}

TEST_F(LaunchPatches, SettingsWithoutALineAreNamed) {
  write("train.sh", kScript);
  const LaunchPatch made = patch("train.sh", "hardware=h100-sxm-80gb,tp=4");
  EXPECT_THAT(made.notes,
              ElementsAre(testing::AllOf(HasSubstr("hardware: found no line of "),
                                         HasSubstr("train.sh that gives h100-sxm-80gb, expected one"))));
  EXPECT_THAT(changed_lines(made.diff), ElementsAre("-TP=2", "+TP=4"));
  EXPECT_THAT(patch("train.sh", "tp=2").diff, IsEmpty()) << "it says so already";
  EXPECT_THROW(patch("nowhere.sh", "tp=2"), InputError);
}

/// Sizes that are legal only together.
TEST_F(LaunchPatches, SettingsMayDependOnEachOther) {
  write("run.yaml", "model: llama-3.1-8b\ntp: 4\npp: 2\nworld_size: 8\nprecision: bf16\n");
  const LaunchPatch made = patch("run.yaml", "pp=4,tp=2");
  EXPECT_THAT(made.notes, IsEmpty());
  EXPECT_THAT(changed_lines(made.diff), ElementsAre("-tp: 4", "-pp: 2", "+tp: 2", "+pp: 4"));
}

TEST(LineDiff, IsWhatDiffPrints) {
  const std::string before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
  EXPECT_EQ(unified_diff("f", before, before), "");
  EXPECT_EQ(unified_diff("f", before, "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n"),
            "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
            "@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n");
  EXPECT_EQ(
      unified_diff("f", "a", "b"),
      "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n");
  EXPECT_EQ(unified_diff("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
}

/// Bytes of scripts in any order: edits end, stay few, and change nothing but what they say.
TEST(TextEdits, TakeAnyText) {
  std::mt19937 random(7);
  const std::string pieces[] = {"--tensor-model-parallel-size",
                                " ",
                                "=",
                                "$TP",
                                "${TP:-2}",
                                "TP=",
                                "\\\n",
                                "\"",
                                "'",
                                "{",
                                "}",
                                "\n",
                                "4",
                                "tp",
                                ": ",
                                ",",
                                "#",
                                "[p]",
                                "\xff"};
  std::uniform_int_distribution<std::size_t> piece(0, std::size(pieces) - 1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    for (std::size_t i = 0; i < 24; ++i) text += pieces[piece(random)];
    for (const TextFormat format :
         {TextFormat::shell, TextFormat::toml, TextFormat::yaml, TextFormat::json}) {
      for (const bool removed : {false, true}) {
        const WantedArgument wanted{format == TextFormat::shell ? "--tensor-model-parallel-size" : "p.tp",
                                    "8", removed};
        const auto edited = edited_texts(text, format, wanted, {"tp", "--seq-length"});
        EXPECT_LE(edited.size(), 64U);
        for (const std::string& each : edited) EXPECT_LE(each.size(), text.size() + 64);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::launch_patch_test
