// One job from tasks of torchrun and of plain srun, and over several hosts; killed ones leave nothing behind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Tasks : public ::testing::Test, protected test::TemporaryFolder {
 protected:
  Tasks() {
    fs::create_directory(folder_ / "tmp");
    write("run.yaml",
          "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128,\n"
          "        max_position_embeddings: 64, rms_norm_eps: 1.0e-6, tie_word_embeddings: false}\n"
          "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\nsteps: 2\n");
  }

  /// Exit code of a line of bash in the folder, where $P is the program.
  int bash(const std::string& line) const {
    std::ofstream(folder_ / "line.sh") << line;
    const int status = std::system(fmt::format("cd {0} && env -u SLURM_JOB_ID HOME={0} XDG_CACHE_HOME= "
                                               "TMPDIR={0}/tmp OMPI_MCA_mpi_yield_when_idle=1 P={1} "
                                               "timeout 100 bash line.sh >out.txt 2>err.txt",
                                               folder_.string(), PLUMBLINE_PROGRAM)
                                       .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Loss printed by rank 0.
  double loss() const {
    const auto printed = nlohmann::json::parse(read("out.txt"), nullptr, false);
    if (printed.is_discarded()) return -1;
    return printed["measurement"]["loss"].get<double>();
  }
  /// Loss and gradients of one rank.
  double alone() const {
    EXPECT_EQ(bash("exec $P run run.yaml --json --save-gradients one.safetensors"), 0) << read("err.txt");
    return loss();
  }
  /// No file of a run, and after a moment no process.
  void expect_nothing_left() const {
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
    const std::string seek = fmt::format(
        "grep -lz {} /proc/[0-9]*/environ 2>/dev/null | grep -v /self/ | grep -q .", folder_.string());
    for (int tries = 0; std::system(seek.c_str()) == 0; ++tries) {
      ASSERT_LT(tries, 200) << "a process is left";
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
};

/// Two tasks of one host, as torchrun and as plain srun start them. The port is this process's own.
std::string two_tasks(const std::string& variables, const std::string& arguments) {
  return fmt::format(
      "task() {{ export {}; exec $P run run.yaml --pp 2 {}; }}\n"
      "(rank=1; task) >second.txt 2>&1 & (rank=0; task); code=$?; wait $!; exit $((code * 10 + $?))",
      variables, arguments);
}

std::string torchrun(int size = 2) {
  return fmt::format(
      "RANK=$rank WORLD_SIZE={} LOCAL_RANK=$rank LOCAL_WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={}",
      size, size, 20'000 + getpid() % 20'000);
}

TEST_F(Tasks, OfOneHostGiveTheNumbersOfOneRank) {
  const double expected = alone();
  ASSERT_EQ(bash(two_tasks(torchrun(), "--save-gradients torchrun.safetensors")), 0)
      << read("err.txt") << read("second.txt");
  EXPECT_EQ(loss(), expected);
  EXPECT_EQ(read("torchrun.safetensors"), read("one.safetensors"));
  EXPECT_THAT(read("second.txt"), IsEmpty());
  const std::string srun = fmt::format(
      "SLURM_JOB_ID={} SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NODEID=0 SLURM_NTASKS=2 "
      "SLURM_STEP_NUM_TASKS=2 "
      "SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=2",
      getpid() % 10'000);
  ASSERT_EQ(bash(two_tasks(srun, "")), 0) << read("err.txt") << read("second.txt");
  EXPECT_EQ(loss(), expected);
  expect_nothing_left();
}

TEST_F(Tasks, WhatTheyCannotDoIsOneLine) {
  const struct {
    std::string line;
    int code;
    const char* said;
  } cases[] = {
      {"export RANK=1 WORLD_SIZE=2 MASTER_ADDR=x; exec $P run run.yaml --pp 2", 2,
       "without the address of rank 0, expected MASTER_ADDR and MASTER_PORT"},
      {"export RANK=1 WORLD_SIZE=4 MASTER_ADDR=x MASTER_PORT=1; exec $P run run.yaml --pp 2", 2,
       "world_size: found 2 ranks and 4 tasks of torchrun"},
      {"export RANK=1 WORLD_SIZE=4 MASTER_ADDR=x; exec $P matrix run.yaml", 2,
       "found several processes started by torchrun"},
      {"export RANK=1 WORLD_SIZE=4 MASTER_ADDR=x OMPI_COMM_WORLD_RANK=2; exec $P run run.yaml", 2,
       "OMPI_COMM_WORLD_RANK"},
      {"echo other1 >hosts; exec $P run run.yaml --hostfile hosts", 2, "hosts: found other1 first on host"},
      {"echo $(hostname) >hosts; exec $P run run.yaml --pp 2 --hostfile hosts", 2,
       "found 2 ranks and 1 slots"},
      {"exec $P matrix run.yaml --rounds 2 --share", 2, "--rounds"},
      {"exec $P matrix run.yaml --print-job", 2, "--launcher slurm"},
      {"export RANK=1 WORLD_SIZE=4 MASTER_ADDR=x OMPI_COMM_WORLD_RANK=2; $P doctor | grep "
       "OMPI_COMM_WORLD_RANK >&2; exit 2",
       2, "RANK, WORLD_SIZE"},
      {two_tasks(torchrun(), "--steps $((rank + 1))"), 22, "configuration: found steps: \"2\" in task 1 on"},
      {two_tasks(torchrun(), "--memory-budget 1KiB"), 33, "rank "},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(bash(c.line), c.code) << c.line << read("err.txt");
    const std::string said = read("err.txt");
    EXPECT_THAT(said, HasSubstr(c.said)) << c.line;
    EXPECT_TRUE(c.code != 2 || said.find('\n') == said.size() - 1) << said;
  }
  expect_nothing_left();
}

TEST_F(Tasks, AMatrixBecomesAJob) {
  EXPECT_EQ(bash("exec $P matrix run.yaml --pp 2 --launcher slurm --jobs 3 --print-job"), 0)
      << read("err.txt");
  EXPECT_THAT(read("out.txt"), HasSubstr("#SBATCH --array=0-2\n#SBATCH --ntasks=2\n"));
  EXPECT_THAT(read("out.txt"), HasSubstr("'matrix' 'run.yaml' '--pp' '2' '--out'"));
  EXPECT_EQ(
      bash("$P matrix run.yaml --share --out out & $P matrix run.yaml --share --out out >two.txt; wait $!"),
      0);
  EXPECT_EQ(bash("export SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=\"2(x2)\"; exec $P doctor"), 0);
  EXPECT_THAT(read("out.txt"), HasSubstr("n1:2,n2:2"));
  const std::string rows = read("out/results.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1) << rows;
}

class SeveralHosts : public Tasks {
 protected:
  void SetUp() override {
    Tasks::SetUp();
    if (bash(hosts("true")) == 77) GTEST_SKIP() << read("err.txt");
  }
  static std::string hosts(const std::string& command) {
    return fmt::format("bash {}/bench/several_hosts.sh 2 bash -c '{}'", PLUMBLINE_SOURCE_DIR, command);
  }
};

TEST_F(SeveralHosts, GiveTheNumbersOfOneRank) {
  const double expected = alone();
  const std::string run = "run run.yaml --pp 2 --json --save-gradients two.safetensors";
  ASSERT_EQ(bash(hosts("$P " + run + " --hostfile $PLUMBLINE_HOSTFILE")), 0) << read("err.txt");
  EXPECT_EQ(loss(), expected);
  EXPECT_EQ(read("two.safetensors"), read("one.safetensors"));
  EXPECT_THAT(read("err.txt"), HasSubstr("note: the hosts' clocks are read as one, to within "));
  EXPECT_EQ(bash(hosts("PLUMBLINE_LAUNCH_AGENT=false exec $P " + run + " --hostfile $PLUMBLINE_HOSTFILE")),
            4);
  expect_nothing_left();
}

/// Two tasks on two hosts, which reach each other by rank 0's store alone. `before` may change the second
/// host.
std::string tasks_on_two_hosts(const std::string& before, const std::string& arguments) {
  return fmt::format(
      "export WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500; enter=${{PLUMBLINE_LAUNCH_AGENT% *}}; "
      "unset PLUMBLINE_LAUNCH_AGENT; {0}; "
      "RANK=1 $enter host2 $P run run.yaml --pp 2 {1} >second.txt 2>&1 & "
      "RANK=0 $P run run.yaml --pp 2 {1}; code=$?; wait $!; exit $((code * 10 + $?))",
      before, arguments);
}

TEST_F(SeveralHosts, TasksNeedNoLaunchAgentButASecret) {
  const double expected = alone();
  ASSERT_EQ(bash(hosts(tasks_on_two_hosts("export PLUMBLINE_SECRET=s", "--save-gradients two.safetensors"))),
            0)
      << read("err.txt") << read("second.txt");
  EXPECT_EQ(loss(), expected);
  EXPECT_EQ(read("two.safetensors"), read("one.safetensors"));
  EXPECT_EQ(bash(hosts(tasks_on_two_hosts("true", ""))), 22);
  EXPECT_THAT(
      read("err.txt"),
      HasSubstr(
          "PLUMBLINE_SECRET: missing, expected a shared secret, as tasks on several hosts (10.77.0.2)"));
  expect_nothing_left();
}

// As Debian sets hosts up: a host's own name is its loopback interface there, and its address elsewhere.
TEST_F(SeveralHosts, TasksMeetWhereAHostsOwnNameIsLoopback) {
  const std::string own_name =
      "export PLUMBLINE_SECRET=s MASTER_ADDR=host1; sed s/10.77.0.1/127.0.1.1/ /etc/hosts >own.txt; "
      "mount --bind own.txt /etc/hosts";
  EXPECT_EQ(bash(hosts(tasks_on_two_hosts(own_name, ""))), 0) << read("err.txt") << read("second.txt");
  expect_nothing_left();
}

TEST_F(SeveralHosts, AnotherFileOnOneOfThemIsALine) {
  std::ofstream(folder_ / "other.yaml") << read("run.yaml") << "seed: 4711\n";
  const std::string other = "export PLUMBLINE_SECRET=s; $enter host2 mount --bind other.yaml run.yaml";
  EXPECT_EQ(bash(hosts(tasks_on_two_hosts(other, ""))), 22);
  EXPECT_THAT(read("err.txt"), HasSubstr("configuration: found seed: \"4711\" in task 1 on host2"));
}

TEST_F(SeveralHosts, WhatOneOfThemLacksIsALineWithItsName) {
  std::ofstream(folder_ / "tokens.bin") << std::string(16'000, '\0');
  const std::string run = "run run.yaml --pp 2 --data tokens.bin --hostfile $PLUMBLINE_HOSTFILE";
  EXPECT_EQ(
      bash(hosts("${PLUMBLINE_LAUNCH_AGENT% *} host2 mount --bind /dev/null tokens.bin; exec $P " + run)), 2);
  EXPECT_THAT(read("err.txt"), HasSubstr("rank 1: on host2: "));
  EXPECT_THAT(read("err.txt"), HasSubstr("tokens.bin: "));
  expect_nothing_left();
}

}  // namespace
}  // namespace plumbline
