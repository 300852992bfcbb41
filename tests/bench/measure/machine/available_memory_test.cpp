// Memory available to new processes: the system's, and control groups' as both versions of cgroup show it.
#include "bench/measure/machine/available_memory.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::available_memory_test {
namespace {

namespace fs = std::filesystem;

struct HostCase {
  const char* what;
  std::vector<std::pair<std::string, std::string>> files;
  std::int64_t available;
};

const std::string kV2 = "sys/fs/cgroup/";
const std::string kV1 = "sys/fs/cgroup/memory/";
const std::pair<std::string, std::string> kSystem = {
    "proc/meminfo", "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    8000 kB\n"};

const HostCase kHosts[] = {
    {"nothing is known", {}, 0},
    {"no groups", {kSystem}, 8000 * 1024},
    {"a group without a limit",
     {kSystem,
      {"proc/self/cgroup", "0::/a\n"},
      {kV2 + "a/memory.max", "max\n"},
      {kV2 + "a/memory.current", "5\n"}},
     8000 * 1024},
    {"a group with one: page cache and slabs can be reclaimed",
     {kSystem,
      {"proc/self/cgroup", "0::/a\n"},
      {kV2 + "a/memory.max", "1000000\n"},
      {kV2 + "a/memory.current", "600000\n"},
      {kV2 + "a/memory.stat",
       "anon 1\nfile 9\ninactive_file 100000\nactive_file 50000\nslab_reclaimable 7\n"}},
     1000000 - 600000 + 150007},
    {"the group around it is narrower",
     {kSystem,
      {"proc/self/cgroup", "0::/a/b/c\n"},
      {kV2 + "a/b/memory.max", "1000000\n"},
      {kV2 + "a/b/memory.current", "600000\n"},
      {kV2 + "a/memory.max", "700000\n"},
      {kV2 + "a/memory.current", "650000\n"}},
     50000},
    {"a limit above what the system has",
     {kSystem,
      {"proc/self/cgroup", "0::/a\n"},
      {kV2 + "a/memory.max", "100000000000\n"},
      {kV2 + "a/memory.current", "0\n"}},
     8000 * 1024},
    {"a full group",
     {kSystem,
      {"proc/self/cgroup", "0::/a\n"},
      {kV2 + "a/memory.max", "1000\n"},
      {kV2 + "a/memory.current", "2000\n"}},
     0},
    {"a container that sees the path of the host",
     {kSystem,
      {"proc/self/cgroup", "0::/docker/4711\n"},
      {kV2 + "memory.max", "1000\n"},
      {kV2 + "memory.current", "400\n"}},
     600},
    {"version 1",
     {kSystem,
      {"proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/a\n0::/\n"},
      {kV1 + "a/memory.limit_in_bytes", "1000000\n"},
      {kV1 + "a/memory.usage_in_bytes", "600000\n"},
      {kV1 + "a/memory.stat", "inactive_file 5\ntotal_inactive_file 100000\ntotal_active_file 2\n"}},
     1000000 - 600000 + 100002},
    {"version 1 without a limit",
     {kSystem,
      {"proc/self/cgroup", "4:memory:/\n"},
      {kV1 + "memory.limit_in_bytes", "9223372036854771712\n"},
      {kV1 + "memory.usage_in_bytes", "600000\n"}},
     8000 * 1024},
};

TEST(AvailableMemory, IsWhatSystemAndControlGroupsLeave) {
  for (const HostCase& host : kHosts) {
    const test::TemporaryFolder root;
    const std::string pattern = root.folder_;
    for (const auto& [name, text] : host.files) root.write(name, text);
    EXPECT_EQ(available_memory(pattern).value, host.available) << host.what;
    EXPECT_GE(total_memory(pattern).value, host.available) << host.what;
    if (host.files.size() == 1) {
      EXPECT_EQ(total_memory(pattern).value, 9000 * 1024) << host.what;
    }
  }
}

TEST(AvailableMemory, IsKnownOfThisHost) {
  EXPECT_GT(available_memory().value, 1 << 20);
  EXPECT_GE(total_memory().value, available_memory().value);
}

}  // namespace
}  // namespace plumbline::available_memory_test
