// Number of processors that a process believes it has.
#include "core/run/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::processors_test {
namespace {

TEST(Processors, FollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(available_processors(), 1);
  EXPECT_LE(available_processors(), CPU_COUNT(&before));
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), available_processors());

  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  EXPECT_EQ(available_cores(), 1);
  EXPECT_EQ(thread_affinity(), (Affinity{first, 1}));
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Processors, HaveAQuotaOnlyWhereOneIsSet) {
  EXPECT_GE(processor_quota(), 0);
  struct Case {
    const char* what;
    std::vector<std::pair<std::string, std::string>> files;
    int processors;
  };
  const std::string v2 = "sys/fs/cgroup/";
  const std::string v1 = "sys/fs/cgroup/cpu/";
  const Case cases[] = {
      {"nothing is known", {}, 0},
      {"none", {{"proc/self/cgroup", "0::/a\n"}, {v2 + "a/cpu.max", "max 100000\n"}}, 0},
      {"one and a half", {{"proc/self/cgroup", "0::/a\n"}, {v2 + "a/cpu.max", "150000 100000\n"}}, 2},
      {"of the group around it",
       {{"proc/self/cgroup", "0::/a/b\n"},
        {v2 + "a/b/cpu.max", "400000 100000\n"},
        {v2 + "a/cpu.max", "100000 100000\n"}},
       1},
      {"a container that sees the outer path",
       {{"proc/self/cgroup", "0::/docker/7\n"}, {v2 + "cpu.max", "300000 100000\n"}},
       3},
      {"version 1",
       {{"proc/self/cgroup", "5:memory:/m\n4:cpuacct,cpu:/vt\n"},
        {v1 + "vt/cpu.cfs_quota_us", "100000\n"},
        {v1 + "vt/cpu.cfs_period_us", "100000\n"},
        {v1 + "cpu.cfs_quota_us", "-1\n"},
        {v1 + "cpu.cfs_period_us", "100000\n"}},
       1},
  };
  for (const Case& c : cases) {
    std::string root = "/tmp/plumbline-quota-XXXXXX";
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    for (const auto& [name, text] : c.files) {
      const std::filesystem::path path = std::filesystem::path(root) / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
    EXPECT_EQ(processor_quota(root), c.processors) << c.what;
    std::filesystem::remove_all(root);
  }
}

}  // namespace
}  // namespace plumbline::processors_test
