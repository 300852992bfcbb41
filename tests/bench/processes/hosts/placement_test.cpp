// Launchers' variables of a process, and contradictions between two of them.
#include "bench/processes/hosts/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "bench/processes/hosts/chosen_hosts.hpp"
#include "core/base/error.hpp"

namespace plumbline::placement_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Settings = std::map<std::string, std::string>;

Variables from(const Settings& settings) {
  return [settings](const std::string& name) -> std::optional<std::string> {
    const auto found = settings.find(name);
    if (found == settings.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

Settings operator+(Settings one, const Settings& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}

const Settings kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_RANK", "3"}};
const Settings kSrun = {{"SLURM_JOB_ID", "1234567"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "3"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                        {"SLURM_JOB_NODELIST", "gpu[07-09]"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                        {"SLURM_TASKS_PER_NODE", "2(x3)"}};
const Settings kTorch = {
    {"RANK", "3"},       {"WORLD_SIZE", "4"},      {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "1"}, {"MASTER_ADDR", "gpu07"}, {"MASTER_PORT", "29500"}};
const Settings kElastic = kTorch + Settings{{"TORCHELASTIC_RUN_ID", "none"}};
const Settings kBatchScript = {{"SLURM_JOB_ID", "7"},
                               {"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "4"},
                               {"SLURM_NODEID", "0"},
                               {"SLURM_JOB_NODELIST", "n[1-2]"},
                               {"SLURM_TASKS_PER_NODE", "2(x2)"}};

TEST(Placement, EveryLauncherIsUnderstood) {
  const struct {
    const char* name;
    Settings settings;
    Launcher launcher;
    int rank, size, local_rank, local_size;
  } cases[] = {
      {"nothing", {}, Launcher::none, 0, 1, -1, -1},
      {"a word RANK", {{"RANK", "first"}}, Launcher::none, 0, 1, -1, -1},
      {"mpirun", kOpenMpi, Launcher::open_mpi, 3, 4, 1, 2},
      {"PMIx alone", {{"PMIX_RANK", "3"}}, Launcher::pmix, 3, -1, -1, -1},
      {"srun --mpi=pmix", kSrun + Settings{{"PMIX_RANK", "3"}}, Launcher::pmix, 3, 4, 1, 2},
      {"srun --mpi=pmi2", kSrun + Settings{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, Launcher::pmi, 3, 4, 1, 2},
      {"plain srun", kSrun, Launcher::slurm, 3, 4, 1, 2},
      {"torchrun", kElastic, Launcher::torchrun, 3, 4, -1, -1},
      {"variables like torchrun's", kTorch, Launcher::torchrun, 3, 4, -1, -1},
      {"a script that sets them from srun's", kSrun + kTorch, Launcher::torchrun, 3, 4, 1, 2},
      {"torchrun in a task of srun",
       kSrun + kElastic +
           Settings{{"SLURM_PROCID", "1"},
                    {"SLURM_STEP_NUM_TASKS", "2"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                    {"PMIX_RANK", "1"}},
       Launcher::torchrun, 3, 4, -1, -1},
      {"mpirun, whose daemons are tasks of srun", kOpenMpi + kSrun + Settings{{"SLURM_PROCID", "0"}},
       Launcher::open_mpi, 3, 4, 1, 2},
      {"a batch script", kBatchScript, Launcher::none, 0, 1, -1, -1},
      {"a batch script with a step of its own", kBatchScript + Settings{{"SLURM_STEP_ID", "4294967291"}},
       Launcher::none, 0, 1, -1, -1},
  };
  for (const auto& c : cases) {
    const Placement found = find_placement(from(c.settings));
    EXPECT_EQ(found.launcher, c.launcher) << c.name;
    EXPECT_EQ(found.rank, c.rank) << c.name;
    EXPECT_EQ(found.size, c.size) << c.name;
    EXPECT_EQ(found.local_rank, c.local_rank) << c.name;
    EXPECT_EQ(found.local_size, c.local_size) << c.name;
    EXPECT_EQ(found.one_of_several(), c.launcher != Launcher::none) << c.name;
  }
}

TEST(Placement, TasksThatCannotSpeakMpiAreToldTheWay) {
  const struct {
    Settings settings;
    const char* said;
  } cases[] = {
      {kElastic, "found task 3 of 4 of torchrun, expected a rank of MPI"},
      {kTorch, "use mpirun -n 4 plumbline ... or srun --mpi=pmix, or start it without torchrun"},
      {kSrun, "use mpirun -n 4 plumbline ... or srun --mpi=pmix, or start it without srun"},
  };
  for (const auto& c : cases) {
    const Placement found = find_placement(from(c.settings));
    EXPECT_THAT([&] { require_mpi(found); }, ThrowsMessage<InputError>(HasSubstr(c.said)));
  }
  for (const auto& settings : {Settings{}, kOpenMpi, kSrun + Settings{{"PMIX_RANK", "3"}}, kBatchScript})
    EXPECT_NO_THROW(require_mpi(find_placement(from(settings))));
}

TEST(Placement, ATaskAloneStartsItsRanksItself) {
  const Settings one_task = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  EXPECT_FALSE(find_placement(from(one_task)).one_of_several());
  const Settings container = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}};
  EXPECT_FALSE(find_placement(from(container)).one_of_several());
}

TEST(Placement, ContradictionsNameBothSources) {
  const struct {
    const char* name;
    Settings settings;
    std::vector<std::string> said;
  } cases[] = {
      {"left from a container",
       kOpenMpi + Settings{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "x"}},
       {"Open MPI says rank 3 of 4 (OMPI_COMM_WORLD_RANK", "torchrun says rank 0 of 1 (RANK, WORLD_SIZE)"}},
      {"PMIx and mpirun", kOpenMpi + Settings{{"PMIX_RANK", "2"}}, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}},
      {"PMIx and srun", kSrun + Settings{{"PMIX_RANK", "2"}}, {"PMIX_RANK", "SLURM_PROCID"}},
      {"PMI's size and srun",
       kSrun + Settings{{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}},
       {"PMI_SIZE", "SLURM_STEP_NUM_TASKS"}},
      {"torchrun's variables and srun", kSrun + kTorch + Settings{{"RANK", "1"}}, {"RANK", "SLURM_PROCID"}},
      {"a rank beyond the size", kTorch + Settings{{"RANK", "4"}}, {"rank 4 of 4", "RANK", "WORLD_SIZE"}},
      {"a local rank beyond the local size",
       kOpenMpi + Settings{{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {"tasks per node and tasks",
       kSrun + Settings{{"SLURM_STEP_TASKS_PER_NODE", "2,1"}},
       {"SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS"}},
      {"nodes and tasks per node",
       kSrun + Settings{{"SLURM_STEP_NODELIST", "gpu[1-3]"}},
       {"SLURM_STEP_NODELIST names 3", "SLURM_STEP_TASKS_PER_NODE"}},
      {"a node beyond the nodes",
       kSrun + Settings{{"SLURM_NODEID", "2"}},
       {"SLURM_NODEID", "SLURM_STEP_NODELIST"}},
      {"no number", {{"OMPI_COMM_WORLD_RANK", "one"}}, {"OMPI_COMM_WORLD_RANK", "one"}},
      {"a negative number", {{"PMI_RANK", "-1"}}, {"PMI_RANK", "-1"}},
  };
  for (const auto& c : cases) {
    std::string message;
    try {
      find_placement(from(c.settings));
    } catch (const InputError& error) {
      message = error.what();
    }
    for (const std::string& words : c.said) EXPECT_THAT(message, HasSubstr(words)) << c.name;
  }
}

TEST(Placement, HostsComeFromTheFileOrTheJob) {
  EXPECT_THAT(chosen_hosts({}, from(kBatchScript)), IsEmpty());
  EXPECT_THAT(chosen_hosts({"local", ""}, from(kBatchScript)), IsEmpty());
  EXPECT_EQ(host_option(chosen_hosts({"mpirun", ""}, from(kBatchScript))), "n1:2,n2:2");
  EXPECT_THAT(
      [] {
        chosen_hosts({"mpirun", ""}, from({}));
      },
      ThrowsMessage<InputError>(HasSubstr("SLURM_JOB_NODELIST")));
  EXPECT_THAT(
      [] {
        chosen_hosts({"local", "hosts"}, from({}));
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("--launcher local"), HasSubstr("--hostfile"))));
  EXPECT_THAT(
      [] {
        chosen_hosts({"mpirun", "/nonexistent/hosts"}, from({}));
      },
      ThrowsMessage<InputError>(HasSubstr("/nonexistent/hosts")));
}

TEST(Placement, MpirunSeesNoPlaceOfAnother) {
  for (const auto& settings : {kSrun, kElastic}) {
    for (const auto& [name, value] : settings) EXPECT_TRUE(tells_a_place(name)) << name;
  }
  for (const char* name : {"SLURM_CONF", "PATH", "PMIX_PREFIX", "OMPI_MCA_btl", "RANKING"})
    EXPECT_FALSE(tells_a_place(name)) << name;
}

}  // namespace
}  // namespace plumbline::placement_test
