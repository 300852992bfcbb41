#include "bench/measure/machine/available_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/run/control_groups.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// The only number of a file; nothing for "max".
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

/// The sum of some lines "name number" or "name: number kB".
std::int64_t sum_of_lines(const fs::path& file, std::initializer_list<std::string_view> names) {
  std::ifstream in(file);
  std::int64_t sum = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t number = 0;
    if (words >> name >> number && std::find(names.begin(), names.end(), name) != names.end()) sum += number;
  }
  return sum;
}

struct CgroupFiles {
  const char* limit;
  const char* used;
  std::initializer_list<std::string_view> reclaimable;  // lines of memory.stat
};

const CgroupFiles kVersion2 = {
    "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};
const CgroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

enum class Share { all, free };

/// Memory that a control group has or leaves; at most `most`.
std::int64_t left_by(const ControlGroup& group, Share share, std::int64_t most) {
  const CgroupFiles& files = group.version == 2 ? kVersion2 : kVersion1;
  const auto limit = number_in(group.folder / files.limit);
  if (!limit) return most;
  if (share == Share::all) return std::min(most, *limit);
  const auto used = number_in(group.folder / files.used);
  if (!used) return most;
  const std::int64_t kept = *used - sum_of_lines(group.folder / "memory.stat", files.reclaimable);
  return std::min(most, std::max<std::int64_t>(*limit - std::max<std::int64_t>(kept, 0), 0));
}

/// `line_name`: of /proc/meminfo.
Bytes memory_of(const std::string& root, std::string_view line_name, Share share) {
  constexpr std::int64_t kUnit = 1024;  // "16265360 kB", which are KiB
  std::int64_t memory = kUnit * sum_of_lines(root + "/proc/meminfo", {line_name});
  if (memory == 0) return {};
  for (const ControlGroup& group : control_groups("memory", root)) memory = left_by(group, share, memory);
  return {memory};
}

}  // namespace

Bytes available_memory(const std::string& root) {
  return memory_of(root, "MemAvailable:", Share::free);
}

Bytes total_memory(const std::string& root) {
  return memory_of(root, "MemTotal:", Share::all);
}

}  // namespace plumbline
