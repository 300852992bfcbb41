// The job of a matrix, as bash reads it, with a Slurm that is a script.
#include "bench/matrix/job_script.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/processes/launch/launch_agent.hpp"
#include "core/base/error.hpp"
#include "core/base/shell_word.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::job_script_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class Jobs : public ::testing::Test {
 protected:
  Jobs() { fs::create_directory(folder_ + "/bin"); }
  void program(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/bash\n" << text;
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string said() const {
    std::ifstream in(folder_ + "/said");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  JobScript job() const {
    JobScript made;
    made.program = folder_ + "/bin/plumbline";
    made.arguments = {"matrix",     "it's.yaml", "--jobs", "3",    "--out=x",
                      "--launcher", "slurm",     "--set",  "a=b c"};
    made.folder = folder_ + "/out";
    made.working_folder = folder_;
    made.jobs = 3;
    made.ranks = 4;
    return made;
  }
  /// Exit code of the job's script; a signal, if any, comes a moment after its start.
  int run(const char* signal = nullptr) const {
    std::ofstream(folder_ + "/job.sh") << job_script(job());
    const std::string cut =
        signal == nullptr ? "" : fmt::format("until [ -e up ]; do sleep 0.02; done; kill -{} $job; ", signal);
    return WEXITSTATUS(std::system(
        fmt::format("cd {0}; export PATH={0}/bin:$PATH SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2; "
                    "bash job.sh & job=$!; {1}wait $job",
                    folder_, cut)
            .c_str()));
  }
  const test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.folder_;
};

TEST_F(Jobs, ARunnerGetsWhatWasAskedForAndSharesTheFolder) {
  program("plumbline", "printf '%s|' \"$@\" >said; exit 3\n");
  EXPECT_EQ(run(), 3);
  EXPECT_EQ(said(),
            fmt::format("matrix|it's.yaml|--set|a=b c|--out|{}/out|--share|--launcher|mpirun|", folder_));
}

TEST_F(Jobs, BeforeTheTimeLimitTheRunnerIsStoppedAndTheJobQueuedAgain) {
  program("plumbline",
          "trap 'sleep 0.1; echo stopped >>said; exit 4' TERM\ntouch up\nwhile :; do sleep 0.02; done\n");
  program("scontrol", "echo \"$@\" >>said\n");
  EXPECT_EQ(run("USR1"), 0);
  EXPECT_EQ(said(), "stopped\nrequeue 7_2\n");
}

TEST_F(Jobs, TheScriptSaysWhatSlurmNeeds) {
  JobScript asked = job();
  EXPECT_THAT(job_script(asked), HasSubstr("#SBATCH --array=0-2\n#SBATCH --ntasks=4\n"));
  EXPECT_THAT(job_script(asked), HasSubstr("#SBATCH --signal=B:USR1@60\n"));
  asked.options = {"--time=1:00:00", "--ntasks-per-node=2", "--nodes=2"};
  EXPECT_THAT(job_script(asked), HasSubstr("#SBATCH --time=1:00:00\n"));
  EXPECT_THAT(job_script(asked), Not(HasSubstr("--ntasks=4")));
}

TEST_F(Jobs, AreGivenToSbatch) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  EXPECT_THAT([&] { submit_job(job()); }, ThrowsMessage<InputError>(HasSubstr("sbatch: not found")));
  setenv("PATH", (folder_ + "/bin:" + path).c_str(), 1);
  program("sbatch", "grep -c SBATCH \"$2\" >&2; echo invalid partition >&2; exit 1\n");
  EXPECT_THAT([&] { submit_job(job()); }, ThrowsMessage<Error>(HasSubstr("invalid partition")));
  program("sbatch", "echo 42\n");
  EXPECT_EQ(submit_job(job()), "42");
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(fs::exists(folder_ + "/out/job.sh"));
}

TEST(Agents, TakeTheHostWhereTheyWantIt) {
  // ssh has a shell on the other side, others take words.
  EXPECT_THAT(agent_command("ssh -o BatchMode=yes", "n1", {"echo", "a b;$c"}),
              ElementsAre("ssh", "-o", "BatchMode=yes", "n1", "'echo' 'a b;$c'"));
  EXPECT_THAT(agent_command("srun --nodelist={host}", "n1", {"echo", "a b;$c"}),
              ElementsAre("srun", "--nodelist=n1", "echo", "a b;$c"));
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace plumbline::job_script_test
