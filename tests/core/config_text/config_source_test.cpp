// Sources of a configuration besides a file with every key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::config_source_test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

constexpr const char* kModelJson =
    R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4,
	"n_positions": 32, "vocab_size": 9})";  // a tab, which YAML would not have

class ConfigSource : public testing::Test, protected test::TemporaryFolder {
 protected:
  static std::string complaint(const std::string& source, const Overrides& overrides = {}) {
    return test::refusal_of([&] { load_run_config(source, overrides); });
  }
};

TEST_F(ConfigSource, APresetAFolderOrNothingIsAConfiguration) {
  const RunConfig preset = load_run_config("llama-3.1-8b", {{"tp", "4"}, {"hardware", "h100-sxm-80gb"}});
  EXPECT_EQ(preset.model.hidden, 4096);
  EXPECT_EQ(preset.model.name, "llama-3.1-8b");
  EXPECT_EQ(preset.parallel.world_size, 4);
  EXPECT_EQ(load_run_config("", {{"model", "llama-3.1-8b"}, {"tp", "4"}}).parallel.tensor, 4);
  write("hf/config.json", kModelJson);
  EXPECT_EQ(load_run_config((folder_ / "hf").string(), {}).model.hidden, 48);
  EXPECT_EQ(load_run_config((folder_ / "hf/config.json").string(), {}).model.hidden, 48);
  EXPECT_EQ(load_run_config((folder_ / "hf").string(), {{"model", "gpt2-124m"}}).model.hidden, 768);
  // A configuration in JSON stays one.
  EXPECT_EQ(load_run_config(write("run.json", R"({"model": "gpt2-124m", "tp": 2})"), {}).parallel.tensor, 2);
  // The file written for a rank reads back, wherever the model came from.
  EXPECT_EQ(load_run_config(write("rank.yaml", to_yaml(preset)), {}).model.hidden, 4096);
}

TEST_F(ConfigSource, AnEmptyFileLacksTheModelAndNothingElse) {
  for (const char* text : {"", "\n\n", "# nothing yet\n", "---\n"}) {
    const std::string path = write("empty.yaml", text);
    EXPECT_THAT(complaint(path), HasSubstr("empty.yaml: model: missing; expected a preset")) << text;
    EXPECT_EQ(load_run_config(path, {{"model", "gpt2-124m"}}).model.hidden, 768) << text;
  }
  EXPECT_THAT(complaint(""), HasSubstr("command line: model: missing; expected a preset"));
}

TEST_F(ConfigSource, WhatIsNoneOfThemIsSaidOnOneLine) {
  EXPECT_THAT(complaint("llama-3.1-8"), HasSubstr("no such file, folder or preset; expected"));
  EXPECT_THAT(complaint("llama-3.1-8"), HasSubstr("did you mean llama-3.1-8b?"));
  EXPECT_THAT(complaint("missing.yaml"), HasSubstr("missing.yaml: no such file; expected a YAML file"));
  EXPECT_THAT(complaint("missing.yaml"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(complaint(folder_.string()), HasSubstr("config.json"));
  EXPECT_THAT(complaint(write("broken.json", "{")), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("a\nb\x1b"), Not(HasSubstr("\x1b")));
}

TEST_F(ConfigSource, AModelThatIsRefusedIsNamedOnce) {
  const std::string path = write("odd.json", R"({"model_type": "falcon_h1"})");
  EXPECT_EQ(complaint(path).rfind(path + ": model_type: found"), 0U) << complaint(path);
  EXPECT_THAT(complaint("", {{"model", path, "--model"}}), HasSubstr("--model: " + path + ": model_type"));
}

TEST_F(ConfigSource, KeysOfAModelBelongToIt) {
  const std::string yaml = write("flat.yaml", "tp: 2\nmodel_type: gpt2\nn_embd: 48\n");
  EXPECT_THAT(complaint(yaml), HasSubstr("flat.yaml: model_type: found among the keys of a run, expected"));
  EXPECT_EQ(load_run_config(write("model_file", kModelJson), {}).model.hidden, 48) << "JSON by any name";
}

TEST_F(ConfigSource, WorldSizeAndDataParallelSizeFollowFromEachOther) {
  const std::string both = write("both.yaml", "model: gpt2-124m\ntp: 2\nworld_size: 8\ndp: 4\n");
  const std::string world = write("world.yaml", "model: gpt2-124m\nworld_size: 8\n");
  EXPECT_EQ(load_run_config(world, {{"tp", "2"}, {"pp", "2"}, {"dp", "4"}}).parallel.world_size, 16);
  EXPECT_EQ(load_run_config(world, {{"tp", "2"}, {"pp", "2"}}).parallel.data(), 2);
  EXPECT_EQ(load_run_config(both, {{"gpus", "16"}}).parallel.data(), 8);
  EXPECT_EQ(load_run_config(both, {{"dp", "1"}}).parallel.world_size, 2);
  EXPECT_EQ(load_run_config("gpt2-124m", {{"gpus", "6"}, {"tp", "2"}}).parallel.data(), 3);
  EXPECT_THAT(complaint(both, {{"gpus", "16"}, {"dp", "4"}}), HasSubstr("world_size: found 16, expected"));
  EXPECT_THAT(complaint(both, {{"tp", "4"}}), HasSubstr("world_size: found 8, expected"));
}

TEST_F(ConfigSource, ErrorsNameTheOption) {
  EXPECT_THAT(complaint("gpt2-124m", {{"tensor_model_parallel_size", "x", "--tp"}}),
              HasSubstr("--tp: tensor_model_parallel_size: found \"x\""));
  EXPECT_THAT(complaint("gpt2-124m", {{"tp", "x"}}), HasSubstr("--set: tensor_model_parallel_size"));
}

TEST_F(ConfigSource, KeysOfATeacherWantOne) {
  for (const char* key : {"teacher_weights", "distillation_schedule", "distillation_temperature",
                          "distillation_kl", "distillation_lm_weight", "distillation_loss",
                          "distillation_cache", "distillation_cache_dtype", "distillation_cache_limit"}) {
    EXPECT_TRUE(find_config_key(key)->only_with_teacher) << key;
  }
  EXPECT_THAT(complaint("gpt2-124m", {{"teacher_weights", "there", "--teacher-weights"}}),
              HasSubstr("--teacher-weights: teacher_weights: found without a teacher"));
  const std::string file = write("run.yaml", "model: gpt2-124m\ndistillation_temperature: 1\n");
  EXPECT_THAT(complaint(file), HasSubstr("run.yaml:2: distillation_temperature: found without a teacher"));
  EXPECT_EQ(complaint(file, {{"teacher", "none"}}), "accepted");
  EXPECT_EQ(complaint(file, {{"teacher", "gpt2-1558m"}}), "accepted");
}

TEST_F(ConfigSource, AMatrixOfOneCell) {
  const std::vector<MatrixCell> preset = load_matrix("gpt2-124m", {{"tp", "2"}, {"mbs", "2"}, {"gbs", "2"}});
  ASSERT_EQ(preset.size(), 1U);
  EXPECT_EQ(preset[0].config.model.hidden, 768);
  EXPECT_EQ(preset[0].config.parallel.world_size, 2);
  EXPECT_EQ(preset[0].invalid, "");
  ASSERT_EQ(load_matrix("", {{"model", "gpt2-124m"}}).size(), 1U);
  EXPECT_THROW(load_matrix("", {}), InputError);
}

}  // namespace
}  // namespace plumbline::config_source_test
