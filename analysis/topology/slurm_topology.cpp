#include "analysis/topology/slurm_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "analysis/topology/host_names.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/base/yaml_text.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostHosts = 200'000;  // in all lists of a file
constexpr std::size_t kMostSwitches = 50'000;

std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

/// Counts the entries of lists, so that a short file cannot name more than a cluster has.
class HostBudget {
 public:
  std::vector<std::string> expand(std::string_view list, const std::string& origin) {
    std::vector<std::string> names = expand_hosts(list, origin, kMostHosts - used_);
    used_ += names.size();
    return names;
  }

 private:
  std::size_t used_ = 0;
};

/// The lines of a topology.conf.
class ConfReader {
 public:
  ConfReader(std::string_view text, std::string origin) : text_(text), origin_(std::move(origin)) {}

  SlurmTopology read() {
    for (int number = 1; !text_.empty(); ++number) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      place_ = fmt::format("{}:{}", origin_, number);
      read_line(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    if (topology_.switches.empty()) {
      throw InputError(fmt::format(
          "{}: found no switch and no block, expected lines SwitchName=... or BlockName=...", origin_));
    }
    return std::move(topology_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", place_, what));
  }

  void read_line(std::string_view line) {
    line = line.substr(0, line.find('#'));
    SlurmSwitch found;
    bool begun = false;
    while (true) {
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) break;
      line.remove_prefix(begin);
      const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
      const std::string_view word = line.substr(0, end);
      line.remove_prefix(end);
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos || equals + 1 == word.size())
        refuse(fmt::format("found {}, expected Key=value", printable(word)));
      read_pair(lower(word.substr(0, equals)), word.substr(equals + 1), found, begun);
    }
    if (!begun) return;
    if (topology_.switches.size() >= kMostSwitches)
      refuse(fmt::format("expected at most {} switches", kMostSwitches));
    topology_.switches.push_back(std::move(found));
  }

  void read_pair(const std::string& key, std::string_view value, SlurmSwitch& found, bool& begun) {
    if (key == "switchname" || key == "blockname") {
      const bool block = key == "blockname";
      if (begun || (!topology_.switches.empty() && topology_.blocks != block))
        refuse(
            "found two kinds of names, expected one SwitchName or BlockName per line, of one kind per file");
      topology_.blocks = block;
      begun = true;
      found.name = printable(value, 255);
    } else if (key == "blocksizes" || key == "linkspeed") {
      return;  // which jobs fit together; not how they are connected
    } else if (!begun) {
      refuse(fmt::format("found {}, expected SwitchName, BlockName or BlockSizes first", printable(key)));
    } else if (key == "nodes") {
      found.nodes = budget_.expand(value, place_);
    } else if (key == "switches" && !topology_.blocks) {
      found.switches = budget_.expand(value, place_);
    } else {
      refuse(fmt::format("found {}, expected Nodes, Switches or LinkSpeed", printable(key)));
    }
  }

  std::string_view text_;
  std::string origin_;
  std::string place_;
  HostBudget budget_;
  SlurmTopology topology_;
};

SlurmTopology topology_of(const JsonKeys& keys) {
  SlurmTopology topology;
  topology.name = keys.string_or("topology", "");
  HostBudget budget;
  topology.blocks = keys.find("block") != nullptr;
  if (topology.blocks == (keys.find("tree") != nullptr)) keys.fail("topology", "expected tree or block");
  const JsonKeys kind = keys.object(topology.blocks ? "block" : "tree");
  for (const JsonKeys& each : kind.objects(topology.blocks ? "blocks" : "switches", kMostSwitches)) {
    SlurmSwitch found;
    found.name = printable(each.string(topology.blocks ? "block" : "switch"), 255);
    const std::string nodes = each.string_or("nodes", "");
    const std::string children = topology.blocks ? "" : each.string_or("children", "");
    if (!nodes.empty()) found.nodes = budget.expand(nodes, each.place("nodes"));
    if (!children.empty()) found.switches = budget.expand(children, each.place("children"));
    topology.switches.push_back(std::move(found));
  }
  if (topology.switches.empty())
    kind.fail(topology.blocks ? "blocks" : "switches", "found none, expected some");
  return topology;
}

/// Slurm reads YAML 1.1, which has more words for true and false than its successor.
bool is_default(const JsonKeys& keys) {
  const char* const key = "cluster_default";
  const Json* const value = keys.find(key);
  if (value == nullptr || !value->is_string()) return keys.boolean_or(key, false);
  const std::string word = lower(value->get<std::string>());
  const bool yes = word == "yes" || word == "true" || word == "on" || word == "y";
  if (!yes && word != "no" && word != "false" && word != "off" && word != "n")
    keys.refuse(key, "true or false");
  return yes;
}

}  // namespace

SlurmTopology parse_slurm_conf(std::string_view text, const std::string& origin) {
  return ConfReader(text, origin).read();
}

SlurmTopology parse_slurm_yaml(const std::string& text, const std::string& origin) {
  const Json file = parse_yaml_list(text, origin);
  const Json* chosen = nullptr;
  for (const Json& each : file) {
    const JsonKeys keys(each, origin);
    if (chosen == nullptr || is_default(keys)) chosen = &each;
    if (is_default(keys)) break;
  }
  if (chosen == nullptr)
    throw InputError(fmt::format("{}: found no topology, expected one at least", origin));
  return topology_of(JsonKeys(*chosen, origin));
}

SlurmTopology read_slurm_topology(const std::string& path) {
  const std::string text = read_text_file(path, kMostBytes);
  const std::string name = printable(path, 400);
  return path.ends_with(".yaml") || path.ends_with(".yml") ? parse_slurm_yaml(text, name)
                                                           : parse_slurm_conf(text, name);
}

}  // namespace plumbline
