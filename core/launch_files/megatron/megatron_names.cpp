#include "core/launch_files/megatron/megatron_names.hpp"

#include <algorithm>

#include "core/launch_files/arguments/argument_table.hpp"

namespace plumbline {
namespace {

struct NamedFlag {
  std::string flag;  // empty: none
  bool opposite = false;
};

NamedFlag flag_named(const std::string& name) {
  const ArgumentTable& table = argument_table("megatron_flags.txt");
  if (const ArgumentName* const other = table.other_name(name)) return {other->flag, other->opposite};
  if (name.find('-') != std::string::npos) return {};
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (table.find("--" + dashed) != nullptr) return {"--" + dashed, false};
  for (const char* prefix : {"--no-", "--disable-"})
    if (table.find(prefix + dashed) != nullptr) return {prefix + dashed, true};
  return {};
}

/// "['a', 'b']" as a and b.
std::vector<std::string> list_items(const std::string& text) {
  std::vector<std::string> items;
  std::string item;
  for (const char c : text.substr(1, text.size() - 2) + ",") {
    if (c == ',') {
      if (!item.empty()) items.push_back(item);
      item.clear();
    } else if (c != ' ' && c != '\'' && c != '"') {
      item += c;
    }
  }
  return items;
}

}  // namespace

std::string nearest_megatron_name(const std::string& name) {
  const ArgumentTable& table = argument_table("megatron_flags.txt");
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  flag = table.nearest(flag);
  if (flag.empty()) return flag;
  if (const auto* const named = table.name_of(flag)) return named->first;
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag.substr(2);
}

bool is_megatron_name(const std::string& name) {
  return !flag_named(name).flag.empty();
}

std::optional<LaunchArgument> megatron_switch_off(const std::string& name, const std::string& value,
                                                  const std::string& place) {
  const NamedFlag named = flag_named(name);
  const bool yes = value == "True" || value == "true";
  const bool no = value == "False" || value == "false";
  if (named.flag.empty() || (named.opposite ? !yes : !no)) return std::nullopt;
  return LaunchArgument{named.flag, {"false"}, place};
}

std::optional<LaunchArgument> megatron_argument(const std::string& name, std::vector<std::string> values,
                                                const std::string& place) {
  const NamedFlag named = flag_named(name);
  if (named.flag.empty()) return std::nullopt;
  if (values.size() == 1 && values.front().size() > 1 && values.front().front() == '[' &&
      values.front().back() == ']')
    values = list_items(values.front());
  if (values.empty()) return std::nullopt;
  const std::string& value = values.front();
  const bool yes = value == "True" || value == "true";
  const bool no = value == "False" || value == "false";
  if (value == "None" || value == "null") return std::nullopt;
  if (values.size() == 1 && (yes || no)) {
    if (yes == named.opposite) return std::nullopt;  // the flag is not given
    return LaunchArgument{named.flag, {}, place};
  }
  if (named.opposite) return std::nullopt;
  return LaunchArgument{named.flag, std::move(values), place};
}

}  // namespace plumbline
