#include "bench/machine/available_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

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

/// The least memory that the control group and those around it have or leave, down to `most`. A container may
/// see the path of its group outside of it, where there is nothing: its own group is then the mount itself.
std::int64_t left_by_groups(const fs::path& mount, const std::string& group, const CgroupFiles& files,
                            Share share, std::int64_t most) {
  fs::path inner = fs::path(group).relative_path();
  for (;;) {
    const fs::path folder = inner.empty() ? mount : mount / inner;
    const auto limit = number_in(folder / files.limit);
    const auto used = number_in(folder / files.used);
    if (limit && share == Share::all) {
      most = std::min(most, *limit);
    } else if (limit && used) {
      const std::int64_t kept = *used - sum_of_lines(folder / "memory.stat", files.reclaimable);
      most = std::min(most, std::max<std::int64_t>(*limit - std::max<std::int64_t>(kept, 0), 0));
    }
    if (inner.empty()) return most;
    inner = inner.parent_path();
  }
}

/// `line_name`: of /proc/meminfo.
Bytes memory_of(const std::string& root, std::string_view line_name, Share share) {
  constexpr std::int64_t kUnit = 1024;  // "16265360 kB", which are KiB
  std::int64_t memory = kUnit * sum_of_lines(root + "/proc/meminfo", {line_name});
  if (memory == 0) return {};
  std::ifstream groups(root + "/proc/self/cgroup");
  const fs::path mount = root + "/sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") memory = left_by_groups(mount, group, kVersion2, share, memory);
    if (controllers.find(",memory,") != std::string::npos)
      memory = left_by_groups(mount / "memory", group, kVersion1, share, memory);
  }
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
