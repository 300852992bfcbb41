// Failure causes and rates of a cluster: published fleets, or one that a user describes.
#pragma once

#include <string>
#include <vector>

#include "core/base/json_keys.hpp"
#include "core/base/units.hpp"

namespace plumbline {

struct FailureCause {
  std::string name;
  double per_node_day = 0;  // interruptions of the job, per node that it has
  /// The node leaves for repair, another one takes its place; else the job starts again on the same nodes.
  bool takes_node = true;
  /// Until the failure is noticed; negative: the plan's value.
  Seconds detect{-1};
};

struct Fleet {
  std::string name;
  std::string source;
  int gpus_per_node = 8;
  std::vector<FailureCause> causes;

  /// All causes together.
  double per_node_day() const;
  /// Nodes that a job of `gpus` has, the last one perhaps in part.
  double nodes(double gpus) const { return gpus / gpus_per_node; }
  /// Mean time between failures of a job. Failures of nodes are taken to be independent and
  /// as likely at any time: the rate is proportional to the nodes.
  Seconds time_between_failures(double gpus) const;
};

/// Reads one fleet as untrusted input: {"source", "gpus_per_node", "observed": {"nodes", "days"}, "causes":
/// [{"cause", "count" or "per_1000_node_days" or "mtbf_hours" with "per_node", "takes_node", "detect_s"}]}.
/// `count` refers to the time and nodes in `observed`; `mtbf_hours` to one component, of which a node has
/// `per_node`. Throws InputError naming `origin`, the key, what was found and what was expected.
Fleet parse_fleet(const Json& object, const std::string& name, const std::string& origin);

/// The published fleets of fleets.json, by name.
const std::vector<Fleet>& published_fleets();
std::vector<std::string> fleet_names();
/// One of published_fleets, or the YAML or JSON file of that path. Throws InputError.
Fleet load_fleet(const std::string& name_or_path);

}  // namespace plumbline
