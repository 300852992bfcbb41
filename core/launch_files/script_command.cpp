#include "core/launch_files/script_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace plumbline {
namespace {

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_option(const ShellWord& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && word.text[2] != '-';
}

/// GPUs that the launcher's words say; empty: none.
std::string gpus_of(const ScriptCommand& command, std::vector<LaunchArgument> flags) {
  ScriptCommand::Words outside = command.job_options;
  for (ShellWord& word : outside)
    if (word.text == "-N") word.text = "--nodes";
  outside.insert(outside.end(), command.launcher.begin(), command.launcher.end());
  for (LaunchArgument& each : keys_of(command, outside)) flags.push_back(std::move(each));
  const auto number = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* const name : names)
      if (std::string value = value_of(flags, name); !value.empty())
        return value.substr(value.rfind(':') + 1);
    return "";
  };
  const auto whole = [](const std::string& text) {
    return !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos
               ? std::stol(text)
               : 0;
  };
  if (std::string all = number({"num_processes"}); whole(all) > 0) return all;
  const std::string nodes = number({"nnodes", "num_nodes", "nodes"});
  const long each = whole(number({"nproc_per_node", "num_gpus", "gpus_per_node", "gres", "ntasks_per_node"}));
  const long hosts = nodes.empty() ? 1 : whole(nodes);
  return each * hosts > 0 ? fmt::format("{}", each * hosts) : "";
}

}  // namespace

std::vector<LaunchArgument> keys_of(const ScriptCommand& command, const std::vector<ShellWord>& words) {
  std::vector<LaunchArgument> found;
  bool whole = false;  // key=value takes no word more
  for (const ShellWord& word : words) {
    const std::size_t equals = word.text.find('=');
    const bool pair = equals != std::string::npos && equals > 0 && word.text[0] != '-';
    if (is_option(word) || pair) {
      std::string key = underscored(
          word.text.substr(pair ? 0 : 2, equals == std::string::npos ? equals : equals - (pair ? 0 : 2)));
      whole = equals != std::string::npos;
      if (pair) key.erase(0, key.find_first_not_of('+'));
      found.push_back({std::move(key), {}, command.place(word), word.known, word.reason});
      if (equals != std::string::npos) found.back().values.push_back(word.text.substr(equals + 1));
    } else if (!found.empty() && !whole) {
      found.back().values.push_back(word.text);
      if (!word.known) {
        found.back().known = false;
        found.back().unknown_reason = word.reason;
      }
    }
  }
  for (LaunchArgument& each : found)
    if (each.values.empty()) each.values = {"true"};
  return found;
}

const LaunchArgument* found_in(const std::vector<LaunchArgument>& all, std::string_view name) {
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [&](const LaunchArgument& each) { return each.name == name; });
  return found == all.rend() ? nullptr : &*found;
}

void rename_key(std::vector<LaunchArgument>& all, std::string_view from, const std::string& to) {
  for (LaunchArgument& each : all)
    if (each.name == from) each.name = to;
}

std::string value_of(const std::vector<LaunchArgument>& all, std::string_view name) {
  const LaunchArgument* const found = found_in(all, name);
  return found == nullptr || found->values.empty() || !found->known ? "" : found->values.front();
}

void take_gpus(LaunchFile& file, const ScriptCommand& command, std::vector<LaunchArgument> flags) {
  const std::string gpus = gpus_of(command, std::move(flags));
  const auto has = [](const LaunchSetting& each) { return each.key == "world_size"; };
  if (gpus.empty() || std::any_of(file.settings.begin(), file.settings.end(), has)) return;
  const ScriptCommand::Words& words = command.launcher.empty() ? command.program : command.launcher;
  const std::string place = words.empty() ? command.name : command.place(words.front());
  file.settings.push_back({"world_size", gpus, place + ": GPUs that the launcher starts"});
  std::erase(file.notes, kNoGpusNote);
}

}  // namespace plumbline
