// Ranks over several hosts; tasks of torchrun and of plain srun, which are refused; jobs of Slurm.
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

namespace plumbline::launchers_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Launchers : public ::testing::Test, protected test::TemporaryFolder {
 protected:
  Launchers() {
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

TEST_F(Launchers, WhatTheyCannotDoIsOneLine) {
  const struct {
    std::string line;
    int code;
    const char* said;
  } cases[] = {
      {"export RANK=1 WORLD_SIZE=2 MASTER_ADDR=x; exec $P run run.yaml --pp 2", 2,
       "found task 1 of 2 of torchrun"},
      {"export SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2; exec $P run run.yaml --pp 2", 2,
       "use mpirun -n 2 plumbline ... or srun --mpi=pmix"},
      {"export RANK=1 WORLD_SIZE=2 MASTER_ADDR=x; exec $P generate run.yaml --prompts p --weights w", 2,
       "found task 1 of 2 of torchrun"},
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
  };
  for (const auto& c : cases) {
    EXPECT_EQ(bash(c.line), c.code) << c.line << read("err.txt");
    const std::string said = read("err.txt");
    EXPECT_THAT(said, HasSubstr(c.said)) << c.line;
    EXPECT_TRUE(c.code != 2 || said.find('\n') == said.size() - 1) << said;
  }
  expect_nothing_left();
}

TEST_F(Launchers, AMatrixBecomesAJob) {
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

class SeveralHosts : public Launchers {
 protected:
  void SetUp() override {
    Launchers::SetUp();
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

/// A pretended plumbline-cuda of two GPUs a host, and a remote shell with an environment of its own.
TEST_F(SeveralHosts, GetTheVariablesOfTheDevice) {
  fs::create_directory(folder_ / "bin");
  fs::copy_file(PLUMBLINE_PROGRAM, folder_ / "bin/plumbline");
  std::ofstream(folder_ / "bin/plumbline-cuda") << fmt::format(
      "#!/bin/sh\n"
      "gpu='{{\"name\":\"NVIDIA H100 80GB HBM3\",\"capability\":\"9.0\",\"memory_bytes\":85520809984,"
      "\"free_bytes\":84520809984}}'\n"
      "[ \"$1\" = doctor ] && echo \"{{\\\"problem\\\":\\\"\\\",\\\"devices\\\":[$gpu,$gpu],\\\"versions\\\":"
      "{{\\\"nccl\\\":\\\"2.28.9\\\"}}}}\" && exit\n"
      "cd {}; env >env.part.$OMPI_COMM_WORLD_RANK; mv env.part.$OMPI_COMM_WORLD_RANK "
      "env.$OMPI_COMM_WORLD_RANK\n"
      "for i in $(seq 200); do [ -e env.0 ] && [ -e env.3 ] && exit 3; sleep 0.05; done; exit 3\n",
      folder_.string());
  fs::permissions(folder_ / "bin/plumbline-cuda", fs::perms::owner_all);
  const std::string run =
      "bin/plumbline run run.yaml --tp 2 --pp 2 --precision bf16 --hostfile $PLUMBLINE_HOSTFILE";
  bash(
      fmt::format("bash {}/bench/several_hosts.sh -s 2 2 bash -c 'export NCCL_ALGO=Ring "
                  "PLUMBLINE_GEMM_CHOICE=first LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/nowhere; "
                  "PLUMBLINE_LAUNCH_AGENT=\"env -i PATH=$PATH $PLUMBLINE_LAUNCH_AGENT\" exec {} "
                  "--backend cuda'",
                  PLUMBLINE_SOURCE_DIR, run));
  for (const char* rank : {"env.0", "env.3"}) {
    const std::string environment = read(rank);
    for (const char* set : {"NCCL_ALGO=Ring\n", "PLUMBLINE_GEMM_CHOICE=first\n", ":/nowhere\n"})
      EXPECT_THAT(environment, HasSubstr(set)) << rank << read("err.txt");
  }
  expect_nothing_left();
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
}  // namespace plumbline::launchers_test
