// Only the exact spelling of a format is a known key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"

namespace plumbline::exact_names_test {
namespace {

using testing::HasSubstr;

std::string hyphenated(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The first refused key and its reason.
std::string refusal(const std::string& text, const std::string& name) {
  const auto file = read_launch_file(text, name);
  if (!file || file->refused.empty()) return "accepted";
  return file->refused.front().name + ": " + file->refused.front().reason;
}

TEST(ExactNames, KeysOfTablesWithHyphensAreUnknownAndHintsAreKnown) {
  for (const char* file : {"torchtitan_keys.txt", "deepspeed_keys.txt", "hugging_face_keys.txt"}) {
    const ArgumentTable& table = argument_table(file);
    for (const auto& [name, row] : table.rows()) {
      const std::string other = hyphenated(name);
      if (name.ends_with("*") || other == name) continue;
      EXPECT_EQ(table.find(name), &row) << name;
      EXPECT_EQ(table.find(other), nullptr) << other;
      EXPECT_EQ(table.nearest(other), name);
    }
  }
  for (const auto& [flag, row] : argument_table("megatron_flags.txt").rows()) {
    const std::string name = flag.substr(2);
    EXPECT_TRUE(name.find('-') == std::string::npos || !is_megatron_name(name)) << name;
  }
}

TEST(ExactNames, FilesWithHyphensAreRefused) {
  const std::string titan = "[model]\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n";
  const struct {
    std::string text;
    const char* file;
    const char* words;
  } cases[] = {
      {titan + "[training]\nlocal-batch-size = 4\n", "job.toml",
       "training.local-batch-size: unknown to torchtitan's table of arguments; the nearest known one is "
       "training.local_batch_size"},
      {titan + "[training]\nlocal_batch_size = 4\n", "job.toml", "accepted"},
      {R"({"train_batch_size": 8, "zero-optimization": {"stage": 3}})", "ds.json",
       "zero-optimization.stage: unknown to DeepSpeed's table of arguments; the nearest known one is "
       "zero_optimization.stage"},
      {"distributed_type: FSDP\nnum-processes: 8\n", "acc.yaml", "nearest known one is num_processes"},
      {"model_name_or_path: x/y\nlora-alpha: 8\n", "lf.yaml", "nearest known one is lora_alpha"},
      {"model:\n  tensor-model-parallel-size: 2\ntrain:\n  micro_batch_size: 1\n", "mb.yaml",
       "nearest known one is tensor_model_parallel_size"},
      {"model:\n  tensor_model_parallel_size: 2\ntrain:\n  micro_batch_size: 1\n", "mb.yaml", "accepted"},
      {"ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n  --num-attention-heads: 2\n  --seq-length: 64\n"
       "  --max-position-embeddings: 64\n  --micro-batch-size: 1\n  --vocab-size: 1000\n",
       "run.yaml", "accepted"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(refusal(each.text, each.file), HasSubstr(each.words)) << each.text;
}

}  // namespace
}  // namespace plumbline::exact_names_test
