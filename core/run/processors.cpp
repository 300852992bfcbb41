// Reads the affinity mask, the core topology and the control group's quota.
#include "core/run/processors.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

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

}  // namespace

int processor_quota() {
  // The mount a container sees is its own group; a quota on an outer group is not visible from inside.
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {
    double quota = 0;
    double period = 0;
    if (file >> quota >> period) return whole_processors(quota, period);  // "max 100000" fails to parse
    return 0;
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota && period_file >> period) return whole_processors(quota, period);
  return 0;
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
