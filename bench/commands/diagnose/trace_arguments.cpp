#include "bench/commands/diagnose/trace_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 4096;  // of a folder

bool named_like_a_trace(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

bool starts_like_a_trace(const fs::path& path) {
  constexpr std::size_t kSeen = std::size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kSeen, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  if (begin.starts_with("\x1f\x8b")) return true;
  constexpr std::array<std::string_view, 4> kKeys = {"\"traceEvents\"", "\"schemaVersion\"",
                                                     "\"deviceProperties\"", "\"ph\""};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view key) { return begin.find(key) != std::string::npos; });
}

void add_folder(const fs::path& folder, std::vector<std::string>& traces) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (named_like_a_trace(entry.path()) && entry.is_regular_file(error))
      found.push_back(entry.path().string());
  }
  if (found.empty() || found.size() > kMostFiles) {
    throw InputError(
        fmt::format("{}: found {} files .json and .json.gz, expected 1 to {} traces; name the files",
                    printable(folder.string(), 200), found.size(), kMostFiles));
  }
  std::sort(found.begin(), found.end());
  traces.insert(traces.end(), found.begin(), found.end());
}

}  // namespace

TraceArguments sort_arguments(const std::vector<std::string>& arguments) {
  TraceArguments sorted;
  for (const std::string& argument : arguments) {
    const fs::path path(argument);
    std::error_code error;
    const bool file = fs::is_regular_file(path, error);
    if (fs::is_directory(path, error) && !fs::exists(path / "config.json", error)) {
      add_folder(path, sorted.traces);
    } else if (file ? starts_like_a_trace(path) : named_like_a_trace(path)) {
      sorted.traces.push_back(argument);
    } else if (sorted.config.empty()) {
      sorted.config = argument;
    } else {
      throw InputError(
          fmt::format("diagnose: found the configurations {} and {}, expected one; leave one out",
                      printable(sorted.config), printable(argument)));
    }
  }
  return sorted;
}

}  // namespace plumbline
