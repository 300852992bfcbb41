// The list of arguments that a run of Megatron-LM prints: "  num_layers ............ 32".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>

#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"
#include "core/launch_files/megatron/megatron_script.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kFewestLines = 10;

/// Name and value of a line, without what a job puts in front of it ("0: ").
bool split_line(const std::string& line, std::string& name, std::string& value) {
  const std::size_t dots = line.find(" ...");
  if (dots == std::string::npos || dots == 0) return false;
  const std::size_t begin = line.find_last_of(" \t:", dots - 1);
  name = line.substr(begin == std::string::npos ? 0 : begin + 1,
                     dots - (begin == std::string::npos ? 0 : begin + 1));
  const std::size_t end = line.find_first_not_of('.', dots + 1);
  if (end == std::string::npos || line[end] != ' ') return false;
  value = line.substr(end + 1);
  while (!value.empty() && (value.back() == '\r' || value.back() == ' ')) value.pop_back();
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

std::optional<FoundArguments> arguments_of_log(std::string_view text, const std::string& name) {
  FoundArguments found;
  std::istringstream lines{std::string(text)};
  std::size_t count = 0;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::string key;
    std::string value;
    if (!split_line(line, key, value)) continue;
    ++count;
    const std::string place = fmt::format("{}:{}", name, number);
    if (key == "world_size") {
      std::int64_t gpus{};
      if (std::from_chars(value.data(), value.data() + value.size(), gpus).ec == std::errc() && gpus > 0 &&
          gpus < (1 << 24))
        found.launcher = {gpus, fmt::format("{}: world_size", place)};
      continue;
    }
    if (auto argument = megatron_argument(key, {value}, place))
      found.arguments.push_back(std::move(*argument));
  }
  if (count < kFewestLines) return std::nullopt;
  return found;
}

}  // namespace plumbline
