// Reads the affinity mask, the core topology and the control group's quota.
#include "core/run/processors.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

int capped(int count) {
  const int quota = processor_quota();
  return std::max(1, quota > 0 ? std::min(count, quota) : count);
}

cpu_set_t affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

int whole_processors(double quota, double period) {
  if (!(quota > 0) || !(period > 0) || quota / period > CPU_SETSIZE) return 0;
  return static_cast<int>((quota + period - 1) / period);
}

/// Processors of one control group; 0: no quota.
int quota_in(const fs::path& folder) {
  double quota = 0;
  double period = 0;
  // "max 100000" fails to parse
  if (std::ifstream file(folder / "cpu.max"); file >> quota >> period) return whole_processors(quota, period);
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period) return whole_processors(quota, period);
  return 0;
}

/// The least quota of a control group and those around it, `least` included; 0: none. A container may see the
/// path of its group outside of it, where there is nothing: its own group is then the mount itself.
int least_quota(const fs::path& mount, const std::string& group, int least) {
  fs::path inner = fs::path(group).relative_path();
  for (;;) {
    const int quota = quota_in(inner.empty() ? mount : mount / inner);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    if (inner.empty()) return least;
    inner = inner.parent_path();
  }
}

}  // namespace

int processor_quota(const std::string& root) {
  const fs::path mount = root + "/sys/fs/cgroup";
  int least = 0;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") least = least_quota(mount, group, least);
    if (controllers.find(",cpu,") != std::string::npos) least = least_quota(mount / "cpu", group, least);
  }
  return least;
}

int machine_processors() {
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int available_processors() {
  const cpu_set_t mask = affinity();
  return capped(CPU_COUNT(&mask));
}

Affinity thread_affinity() {
  const cpu_set_t mask = affinity();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) return {cpu, CPU_COUNT(&mask)};
  }
  return {};
}

int available_cores() {
  const cpu_set_t mask = affinity();
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::string siblings;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  return capped(static_cast<int>(cores.size()));
}

}  // namespace plumbline
