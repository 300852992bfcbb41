// `plumbline run` with checkpoints and injected failures, as a script sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/bench/record/record_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::recovery_command_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class RecoveryCommand : public testing::Test, protected test::TemporaryFolder {
 protected:
  RecoveryCommand() {
    fs::create_directory(folder_ / "tmp");
    write("run.yaml",
          "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128,\n"
          "        max_position_embeddings: 64, rms_norm_eps: 1.0e-6}\n"
          "seq_length: 32\nglobal_batch_size: 16\nprecision: fp32\nlearning_rate: 0.01\nsteps: 4\n"
          "warmup_steps: 0\nhardware: " PLUMBLINE_SOURCE_DIR "/results/recorded/xeon-2-cores/profile.json\n");
  }

  int run(const std::string& arguments) const {
    const std::string command = fmt::format(
        "cd {0} && HOME={0} XDG_CACHE_HOME= TMPDIR={0}/tmp {1} run run.yaml --quiet {2} >out.txt 2>err.txt",
        folder_.string(), PLUMBLINE_PROGRAM, arguments);
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  json measured(const std::string& arguments) const {
    EXPECT_EQ(run(arguments + " --json"), 0) << read("err.txt");
    return json::parse(read("out.txt"), nullptr, false);
  }
  /// Losses of 40 steps on two stages.
  const json& undisturbed_losses() const {
    static const json losses = measured("--pp 2 --steps 40").at("measurement").at("losses");
    return losses;
  }
  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "saved")) names.insert(entry.path().filename());
    return names;
  }
};

TEST_F(RecoveryCommand, ARunIsTheSameWhetherItIsKilledOrNot) {
  Record earlier = sample_record("earlier");
  earlier.recovery->costs.step = {0.125};
  std::ofstream(folder_ / "earlier.json") << to_json(earlier);
  const json hit = measured(
      "--pp 2 --steps 40 --checkpoint-dir saved --checkpoint-interval 3 --async-save "
      "--inject-failures mtbf=20ms,kinds=kill,hang,disk,seed=4,most=3,hang_timeout=200ms "
      "--recovery-costs earlier.json");
  ASSERT_EQ(hit.at("measurement").at("losses").size(), 40U);
  EXPECT_THAT(read("err.txt"), HasSubstr("expected goodput "));
  EXPECT_EQ(hit["measurement"]["losses"], undisturbed_losses());
  EXPECT_EQ(hit["recovery"]["predicted"]["from"]["step_s"], 0.125);
  const json& recovery = hit.at("recovery");
  EXPECT_FALSE(recovery.at("failures").empty());
  EXPECT_EQ(recovery.at("steps"), 40);
  double sum = 0;
  for (const char* part : {"useful_s", "stalls_s", "lost_s", "detect_s", "restart_s"})
    sum += recovery.at(part).get<double>();
  EXPECT_NEAR(sum, recovery.at("total_s").get<double>(), 1e-6);
  EXPECT_LE(checkpoints().size(), 2U);  // the last may have met a full disk
  for (const std::string& name : checkpoints()) EXPECT_EQ(name.find('.'), std::string::npos) << name;
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

// Two and four ranks: a replica is missing for as long as the run, and for a while.
TEST_F(RecoveryCommand, TheOtherReplicasGoOnWithTheWholeBatch) {
  struct Case {
    const char* split;
    const char* form;
    const char* replacement;
    int fewest;
    bool comes_back;
  };
  const Case cases[] = {{"--dp 2 --zero-stage 1", "", "1000s", 1, false},
                        {"--dp 2 --zero-stage 3", "--async-save", "10ms", 1, true},
                        {"--pp 2 --dp 2 --zero-stage 1", "", "10ms", 1, true},
                        {"--dp 4 --gbs 24 --mbs 1", "", "1000s", 3, false}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.split);
    // With a large rate rounding grows from step to step, in runs that nothing disturbs as well.
    const std::string split = fmt::format("{} --steps 60 --learning-rate 0.001", each.split);
    const json whole = measured(split);
    const json hit =
        measured(fmt::format("{} {} --checkpoint-dir saved --checkpoint-interval 3 --elastic "
                             "--inject-failures mtbf=20ms,seed=4,most=1,replacement={}",
                             split, each.form, each.replacement));
    fs::remove_all(folder_ / "saved");
    const json& recovery = hit.at("recovery");
    const json& failures = recovery.at("failures");
    ASSERT_EQ(failures.size(), each.comes_back ? 2U : 1U) << failures;
    EXPECT_EQ(failures[0].at("replicas"), each.fewest);
    EXPECT_EQ(failures[0].at("waiting_s"), 0);
    EXPECT_EQ(failures.back().at("kind"), each.comes_back ? "return" : "kill");
    EXPECT_NE(hit.at("error").is_null(), each.comes_back);
    const json& reduced = recovery.at("costs").at("reduced");
    ASSERT_EQ(reduced.size(), 1U);
    EXPECT_EQ(reduced[0].at("replicas"), each.fewest);
    EXPECT_GT(reduced[0].at("step_s"), 0);
    double sum = 0;
    for (const char* part :
         {"useful_s", "stalls_s", "lost_s", "detect_s", "restart_s", "waiting_s", "missing_s"})
      sum += recovery.at(part).get<double>();
    EXPECT_NEAR(sum, recovery.at("total_s").get<double>(), 1e-6);
    const json& losses = hit.at("measurement").at("losses");
    const json& expected = whole.at("measurement").at("losses");
    ASSERT_EQ(losses.size(), 60U);
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i].get<double>(), expected[i].get<double>(), 1e-5 * expected[i].get<double>()) << i;
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
  }
}

TEST_F(RecoveryCommand, WhereNobodyGoesOnTheRunWaitsForARank) {
  const json hit = measured(
      "--pp 2 --steps 40 --checkpoint-dir saved --checkpoint-interval 3 "
      "--inject-failures mtbf=20ms,seed=4,most=1,replacement=300ms");
  EXPECT_EQ(hit["measurement"]["losses"], undisturbed_losses());
  const json& recovery = hit.at("recovery");
  EXPECT_GE(recovery.at("waiting_s"), 0.3);
  EXPECT_EQ(recovery.at("waiting_s"), recovery.at("failures")[0].at("waiting_s"));
  EXPECT_EQ(recovery.at("missing_s"), 0);
}

TEST_F(RecoveryCommand, WeightsAndCheckpointsMayBeOnTwoDisks) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const test::TemporaryFolder elsewhere("/dev/shm");
  const fs::path& other = elsewhere.folder_;
  struct stat here {};
  struct stat there {};
  ASSERT_EQ(::stat(folder_.c_str(), &here), 0);
  ASSERT_EQ(::stat(other.c_str(), &there), 0);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "/dev/shm is on the disk of the temporary folder";
  const std::string saved = (other / "saved").string();
  const json whole = measured("--pp 2 --steps 6 --save-weights whole");
  measured(fmt::format("--pp 2 --steps 4 --save-weights first --checkpoint-dir {} --checkpoint-interval 2",
                       saved));
  const json later =
      measured(fmt::format("--pp 2 --steps 6 --save-weights later --checkpoint-dir {} --resume", saved));
  EXPECT_EQ(later.at("measurement").at("losses"), whole.at("measurement").at("losses"));
  EXPECT_FALSE(read("whole/model.safetensors").empty());
  EXPECT_EQ(read("later/model.safetensors"), read("whole/model.safetensors"));
  EXPECT_NE(read("first/model.safetensors"), read("whole/model.safetensors"));
}

// The only checkpoint is the one at the end: the disk is still full when the ranks write their measurement.
TEST_F(RecoveryCommand, ADiskThatIsFullAtTheEndCostsAnotherStart) {
  const json hit = measured(
      "--pp 2 --steps 40 --checkpoint-dir saved --checkpoint-interval 1000 "
      "--inject-failures mtbf=10ms,kinds=disk,seed=4,most=1");
  ASSERT_EQ(hit.at("measurement").at("losses").size(), 40U);
  EXPECT_EQ(hit["measurement"]["losses"], undisturbed_losses());
  EXPECT_EQ(hit.at("recovery").at("failures").size(), 1U);
  EXPECT_EQ(checkpoints(), std::set<std::string>{"iter_0000040"});
}

TEST_F(RecoveryCommand, ADamagedCheckpointIsNamedAndTheOneBeforeIsTaken) {
  const json whole =
      measured("--steps 6 --checkpoint-dir saved --checkpoint-interval 2 --keep-checkpoints 3");
  fs::remove_all(folder_ / "saved/iter_0000006");
  const fs::path shard = folder_ / "saved/iter_0000004/shard_00000.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 4);
  const json resumed = measured("--pp 2 --steps 6 --checkpoint-dir saved --resume");
  EXPECT_THAT(read("err.txt"), HasSubstr("damaged checkpoint, the one before is taken: "));
  EXPECT_THAT(read("err.txt"), HasSubstr("iter_0000004/shard_00000.safetensors: found "));
  EXPECT_EQ(resumed.at("measurement").at("checkpoints").at("resumed_step"), 2);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(resumed["measurement"]["losses"][i].get<double>(),
                whole["measurement"]["losses"][i].get<double>(), 1e-5);
  EXPECT_EQ(whole.at("measurement").at("checkpoints").at("written"), 3);
  // Without a complete one the run does not start over at the first step.
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "saved")) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 100);
  }
  EXPECT_EQ(run("--steps 8 --checkpoint-dir saved --resume"), 2);
  EXPECT_THAT(read("err.txt"), HasSubstr("--resume: saved: found damaged checkpoints only"));
}

TEST_F(RecoveryCommand, WhatCannotBeDoneIsOneLine) {
  fs::create_directories(folder_ / "taken/iter_0000001");
  const std::pair<const char*, const char*> cases[] = {
      {"--checkpoint-interval 2", "--checkpoint-dir: missing"},
      {"--checkpoint-dir taken", "found checkpoints of an earlier run in"},
      {"--checkpoint-dir saved --backend emulated --hardware h100-sxm-80gb",
       "backend emulated, which computes no values"},
      {"--inject-failures mtbf=30s", "--inject-failures: expected --checkpoint-dir"},
      {"--checkpoint-dir saved --inject-failures mtbf=soon", "expected a time from 10ms to 1000h"},
      {"--recovery-costs run.yaml", "--recovery-costs requires --inject-failures"},
      {"--elastic", "--elastic requires --inject-failures"},
      {"--dp 2 --checkpoint-dir saved --inject-failures mtbf=1s --elastic", "expected replacement=TIME"},
      {"--pp 2 --checkpoint-dir saved --inject-failures mtbf=1s,replacement=9s --elastic",
       "found data_parallel_size 1, expected 2 or more"},
      {"--dp 4 --checkpoint-dir saved --inject-failures mtbf=1s,replacement=9s --elastic",
       "without one of 4 replicas the run could not go on: global_batch_size"},
      {"--checkpoint-dir saved --inject-failures mtbf=1s --recovery-costs none.json", "none.json: "},
      {"--checkpoint-dir saved --inject-failures mtbf=1s --recovery-costs run.yaml", "run.yaml"},
  };
  for (const auto& [arguments, said] : cases) {
    EXPECT_EQ(run(arguments), 2) << arguments;
    const std::string error = read("err.txt");
    EXPECT_THAT(error, HasSubstr(said)) << arguments;
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  }
}

}  // namespace
}  // namespace plumbline::recovery_command_test
