#include "bench/processes/launch/rank_binding.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include "bench/processes/hosts/placement.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

constexpr const char* kProcessorsVariable = "PLUMBLINE_PROCESSORS";
constexpr const char* kBindVariable = "PLUMBLINE_BIND_RANKS";  // how many ranks of this host bind themselves

int number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string_view text = value == nullptr ? "" : value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::max(number, 0) : 0;
}

/// The threads of the mask by core.
std::vector<std::vector<int>> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  std::map<std::string, std::vector<int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::string siblings;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores[siblings].push_back(cpu);
  }
  std::vector<std::vector<int>> lists;
  lists.reserve(cores.size());
  for (auto& [siblings, threads] : cores) lists.push_back(std::move(threads));
  return lists;
}

}  // namespace

bool mask_is_narrow() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) < machine_processors();
}

std::vector<std::pair<std::string, std::string>> binding_variables(int ranks_here, bool bind_ranks) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {kProcessorsVariable, std::to_string(available_processors())}};
  if (bind_ranks && mask_is_narrow()) variables.emplace_back(kBindVariable, std::to_string(ranks_here));
  return variables;
}

void bind_this_rank() {
  const int ranks = number_in(kBindVariable);
  const int rank = find_placement(process_variables()).local_rank;
  if (ranks == 0 || rank < 0) return;
  // A quota covers any processors: more ranks than it allows are not bound.
  if (processor_quota() > 0 && ranks > available_cores()) return;
  const std::vector<int> threads = threads_of_rank(allowed_cores(), rank, ranks);
  if (threads.empty()) return;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (const int thread : threads) CPU_SET(thread, &chosen);
  sched_setaffinity(0, sizeof chosen, &chosen);  // where it is forbidden the rank stays unbound
}

int usable_processors() {
  if (const int told = number_in(kProcessorsVariable); told > 0) return told;
  return find_placement(process_variables()).one_of_several() ? 0 : available_processors();
}

std::vector<int> threads_of_rank(const std::vector<std::vector<int>>& cores, int rank, int ranks) {
  std::vector<int> threads;
  for (const auto& core : cores) threads.insert(threads.end(), core.begin(), core.end());
  if (ranks <= static_cast<int>(cores.size())) return cores[static_cast<std::size_t>(rank) % cores.size()];
  if (threads.empty() || ranks <= static_cast<int>(threads.size())) return {};
  return {threads[static_cast<std::size_t>(rank) % threads.size()]};
}

}  // namespace plumbline
