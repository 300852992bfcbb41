// Reads the affinity mask, the core topology and the control group's quota.
#include "core/run/processors.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "core/run/control_groups.hpp"

namespace plumbline {
namespace {

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

/// 0: no quota.
int quota_in(const ControlGroup& group) {
  double quota = 0;
  double period = 0;
  if (group.version == 2) {
    std::ifstream file(group.folder / "cpu.max");  // "max 100000" fails to parse
    return file >> quota >> period ? whole_processors(quota, period) : 0;
  }
  std::ifstream quota_file(group.folder / "cpu.cfs_quota_us");
  std::ifstream period_file(group.folder / "cpu.cfs_period_us");
  return quota_file >> quota && period_file >> period ? whole_processors(quota, period) : 0;
}

}  // namespace

int processor_quota(const std::string& root) {
  int least = 0;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const int quota = quota_in(group);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
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
