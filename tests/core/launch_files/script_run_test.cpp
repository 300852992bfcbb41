// Launch scripts that are run in a sandbox (--run-script): their values are bash's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/launch_files/sandbox/sandbox.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::script_run_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kTail =
    " --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 2048 --max-position-embeddings "
    "2048 --micro-batch-size 1 --vocab-size 32000\n";

/// The reason why this machine makes no sandbox; empty: it makes one.
std::string why_no_sandbox() {
  const test::TemporaryFolder folder;
  return run_in_sandbox({folder.write("x.sh", "python x\n")}).unavailable;
}

class ScriptRunTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_no_sandbox();
    if (!reason.empty()) GTEST_SKIP() << "no sandbox on this machine: " << reason;
  }

  LaunchFile read(const std::string& script, const std::map<std::string, std::string>& variables = {}) const {
    const std::string file = folder_.write("train.sh", script);
    BesideFile beside;
    beside.variables = variables;
    beside.run_script = file;
    return read_launch_file(script, "train.sh", files_near(file), beside).value();
  }

  std::string value(const std::string& script, const std::string& key,
                    const std::map<std::string, std::string>& variables = {}) const {
    try {
      for (const LaunchSetting& each : read(script, variables).settings)
        if (each.key == key) return each.value;
      return "none";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  test::TemporaryFolder folder_;
};

struct ComputedCase {
  const char* script;  // sets TP
  const char* expected;
};

TEST_F(ScriptRunTest, ComputedValuesAreBashs) {
  const ComputedCase cases[] = {
      {"TP=$(echo 2 4 | awk '{print $1 * $2}')", "8"},
      {"TP=$(seq 1 4 | wc -l)", "4"},
      {"TP=$(printf '%s\\n' 1 8 4 | sort -n | tail -1)", "8"},
      {"for TP in $(seq 1 4); do :; done", "4"},
      {"declare -A S=([7b]=2 [70b]=8); M=70b; TP=${S[$M]}", "8"},
      {"read -r TP REST <<< \"4 x\"", "4"},
      {"TP=$(cat <<E\n2\nE\n)", "2"},
      {"f() { local -n out=$1; out=4; }; f TP", "4"},
      {"TP=1; while (( TP * TP < 16 )); do TP=$((TP * 2)); done", "4"},
      {"mapfile -t A < <(printf '1\\n2\\n'); TP=${A[1]}", "2"},
      {"[[ model-8x =~ -([0-9]+)x ]] && TP=${BASH_REMATCH[1]}", "8"},
      {"TP=$(basename size4.sh .sh); TP=${TP//[a-z]/}", "4"},
      {"printf -v TP %d 0x8", "8"},
      {"TP=$(bash -c 'echo $((1 << 2))')", "4"},
      {"source sizes.sh", "2"},
      {"TP=$(cut -d= -f2 sizes.sh)", "2"},
      {"TP=$(date +%s); TP=$((TP > 0 ? 4 : 1))", "4"},
      {"TP=${SIZE%b}", "8"},
  };
  folder_.write("sizes.sh", "TP=2\n");
  for (const ComputedCase& each : cases)
    EXPECT_EQ(
        value(std::string(each.script) +
                  "\ntorchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP" + kTail,
              "tensor_model_parallel_size", {{"SIZE", "8b"}}),
        each.expected)
        << each.script;
}

struct LaunchCase {
  std::string script;
  const char* key;
  const char* expected;
};

TEST_F(ScriptRunTest, ReadsTheCommandsThatWouldHaveRun) {
  const std::string gpt = "pretrain_gpt.py --tensor-model-parallel-size 2" + kTail;
  const LaunchCase cases[] = {
      {"torchrun --nnodes $(echo 2) --nproc_per_node 8 " + gpt, "world_size", "16"},
      {"#SBATCH --nodes=4 --gpus-per-node=8\nsrun python " + gpt, "world_size", "32"},
      {"export TP=4; srun bash -c 'python pretrain_gpt.py --tensor-model-parallel-size $TP" +
           kTail.substr(0, kTail.size() - 1) + "'",
       "tensor_model_parallel_size", "4"},
      {"echo 'python pretrain_gpt.py --tensor-model-parallel-size $1" + kTail +
           "' > ~/inner.sh; srun --mem=0 ~/inner.sh $((1 + 1))",
       "tensor_model_parallel_size", "2"},
      {"cat > /tmp/inner.sh <<'E'\npython " + gpt + "E\nbash /tmp/inner.sh", "tensor_model_parallel_size",
       "2"},
      {"nohup torchrun " + gpt + "&", "tensor_model_parallel_size", "2"},
      {"/usr/bin/env A=1 torchrun " + gpt, "tensor_model_parallel_size", "2"},
      {"conda activate x && module load cuda && some-launcher python " + gpt, "tensor_model_parallel_size",
       "2"},
      {"set -euo pipefail; mkdir -p ~/runs /tmp/logs; torchrun " + gpt, "tensor_model_parallel_size", "2"},
      {"A=\"it's\"; torchrun pretrain_gpt.py --tensor-model-parallel-size 2 --save \"$A $(echo '\"')\"" +
           kTail,
       "tensor_model_parallel_size", "2"},
      {"python -c 'import torch'; git rev-parse HEAD; torchrun " + gpt, "tensor_model_parallel_size", "2"},
      {"export NNODES=2 NPROC_PER_NODE=$(echo 4); megatron sft --model Qwen/Qwen3-8B --max_length 512",
       "world_size", "8"},
      {"torchrun pretrain_gpt.py --tensor-model-parallel-size $2" + kTail, "tensor_model_parallel_size", "4"},
  };
  for (const LaunchCase& each : cases)
    EXPECT_EQ(value(each.script, each.key, {{"1", "7b"}, {"2", "4"}}), each.expected) << each.script;
}

/// Logs and configurations that a script writes beside itself stay in memory.
TEST_F(ScriptRunTest, WritesIntoALayerOverTheFolder) {
  const std::string path =
      folder_.write("x.sh", "set -e; mkdir -p /logs out; echo a > b; torchrun $(cat b) > out/c\n");
  const SandboxRun run = run_in_sandbox({path, folder_.folder_.string()});
  if (run.complaint.find("Read-only") != std::string::npos) GTEST_SKIP() << "this kernel stacks no folders";
  ASSERT_EQ(run.commands.size(), 1U) << run.complaint;
  EXPECT_EQ(run.commands[0].words, (std::vector<std::string>{"torchrun", "a"}));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("b")) || std::filesystem::exists(folder_.at("out")));
}

/// In a user namespace whose limit of further ones is 0, as some systems have it.
TEST_F(ScriptRunTest, SaysThatAMachineMakesNoSandbox) {
  BesideFile beside;
  beside.run_script = folder_.write("x.sh", "#!/bin/bash\npython x\n");
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kNoLimit = 3;
    if (unshare(CLONE_NEWUSER) != 0) _exit(kNoLimit);
    std::ofstream limit("/proc/sys/user/max_user_namespaces");
    if (!(limit << "0" << std::flush)) _exit(kNoLimit);
    try {
      read_launch_file("#!/bin/bash\npython x\n", "x.sh", {}, beside);
    } catch (const InputError& error) {
      const std::string_view told = error.what();
      _exit(told.starts_with("--run-script: found no sandbox on this machine (namespaces of Linux: ") ? 0
                                                                                                      : 1);
    }
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "the limit cannot be set";
  EXPECT_EQ(status, 0);
}

TEST_F(ScriptRunTest, SaysWhatWasWrittenDownAndHowTheScriptEnded) {
  const LaunchFile file = read("module load x\ntorchrun pretrain_gpt.py" + kTail + "false\n");
  ASSERT_GE(file.notes.size(), 2u);
  EXPECT_THAT(file.notes[0], HasSubstr("only wrote their command down: module, torchrun"));
  EXPECT_EQ(file.notes[1], "train.sh: it ended with status 1");
}

struct RefusedCase {
  std::string script;
  const char* expected;
};

TEST_F(ScriptRunTest, RefusesScriptsWithoutATrainingCommand) {
  const RefusedCase cases[] = {
      {"#!/bin/bash\ntrue\n", "train.sh: --run-script: found a script that starts nothing, expected"},
      {"#!/bin/bash\nset -e\ncat missing.txt\ntorchrun x\n", "starts nothing (it ended with status 1: "},
      {"#!/bin/bash\npip list\nexit 3\n", "of the script, it ended with status 3"},
      {"#!/bin/bash\ntorchrun pretrain_gpt.py --tensor-model-parallel-size $UNSET" + kTail,
       "train.sh (run):2: --tensor-model-parallel-size: found"},
      {"#!/bin/bash\nfor i in 1 2; do torchrun pretrain_gpt.py --seed $i" + kTail + "done",
       "found 2 commands with arguments of Megatron-LM"},
      {"seq_length: 2048\n", "train.sh: found with --run-script, expected a shell script; remove the option"},
  };
  for (const RefusedCase& each : cases) {
    BesideFile beside;
    beside.run_script = folder_.write("train.sh", each.script);
    const std::string name = each.script.starts_with('#') ? "train.sh" : "train.yaml";
    try {
      read_launch_file(each.script, name, files_near(beside.run_script), beside);
      ADD_FAILURE() << each.script;
    } catch (const InputError& error) {
      std::string expected = each.expected;
      if (name == "train.yaml") expected.replace(0, 8, name);
      EXPECT_THAT(error.what(), HasSubstr(expected));
    }
  }
}

/// Refusals of the constant reader name the way out where there is one.
TEST(ScriptRefusals, NameTheRunWhereBashKnowsMore) {
  const std::string gpt = "torchrun pretrain_gpt.py --tensor-model-parallel-size $TP" + kTail;
  const auto refusal = [&](const std::string& script, const std::string& name = "train.sh") -> std::string {
    try {
      const auto file = read_launch_file(script, name);
      file.value().require_modelled();
      return "read";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  for (const char* const script :
       {"TP=$(date +%d)\n", "if [ -f x ]; then TP=2; else TP=4; fi\n", "source missing.sh\n",
        "read TP < file\n", "case $(uname) in Linux) TP=1;; *) TP=2;; esac\n"})
    EXPECT_THAT(refusal(script + gpt), HasSubstr(", or add --run-script, which runs the script in a sandbox"))
        << script;
  EXPECT_THAT(refusal("TP=3x\n" + gpt), testing::Not(HasSubstr("--run-script")));
}

}  // namespace
}  // namespace plumbline::script_run_test
