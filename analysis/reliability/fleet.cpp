#include "analysis/reliability/fleet.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "analysis/hardware/embedded.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/base/yaml_text.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostFleetBytes = std::size_t{1} << 20;
constexpr std::size_t kMostCauses = 1000;
constexpr double kMostPerNodeDay = 1e4;    // one every nine seconds on a single node
constexpr double kLeastPerNodeDay = 1e-9;  // one in three million years

/// Interruptions per node and day, in any form of the file.
double rate_of(const JsonKeys& cause, double node_days) {
  const bool counted = cause.find("count") != nullptr;
  const bool rated = cause.find("per_1000_node_days") != nullptr;
  const bool timed = cause.find("mtbf_hours") != nullptr;
  if (int{counted} + int{rated} + int{timed} != 1) {
    cause.fail("cause",
               "expected one of count (with observed), per_1000_node_days, mtbf_hours (with per_node)");
  }
  if (rated) return cause.number("per_1000_node_days", 0, 1e3 * kMostPerNodeDay) / 1000;
  if (timed) {
    return 24 * cause.number_or("per_node", 0.001, 1e6, 1) / cause.number("mtbf_hours", 0.001, 1e12);
  }
  if (node_days == 0)
    cause.fail("count", "expected observed: {nodes, days} alongside causes, which it is of");
  return cause.number("count", 0, 1e9) / node_days;
}

}  // namespace

double Fleet::per_node_day() const {
  double rate = 0;
  for (const FailureCause& cause : causes) rate += cause.per_node_day;
  return rate;
}

Seconds Fleet::time_between_failures(double gpus) const {
  return {86400 / (nodes(gpus) * per_node_day())};
}

Fleet parse_fleet(const Json& object, const std::string& name, const std::string& origin) {
  const JsonKeys keys(object, origin);
  Fleet fleet;
  fleet.name = name;
  fleet.source = keys.string_or("source", "");
  fleet.gpus_per_node = static_cast<int>(keys.integer_or("gpus_per_node", 1024, 8));
  double node_days = 0;
  if (keys.find("observed") != nullptr) {
    const JsonKeys observed = keys.object("observed");
    node_days = observed.number("nodes", 1, 1e9) * observed.number("days", 0.001, 1e6);
    observed.refuse_unknown();
  }
  for (const JsonKeys& each : keys.objects("causes", kMostCauses)) {
    FailureCause cause;
    cause.name = printable(each.string("cause"));
    cause.per_node_day = rate_of(each, node_days);
    cause.takes_node = each.boolean_or("takes_node", true);
    if (each.find("detect_s") != nullptr) cause.detect = {each.number("detect_s", 0, 1e7)};
    each.refuse_unknown();
    fleet.causes.push_back(std::move(cause));
  }
  keys.refuse_unknown();
  const double rate = fleet.per_node_day();
  if (rate < kLeastPerNodeDay || rate > kMostPerNodeDay) {
    keys.fail("causes", fmt::format("found {:g} failures per node and day in all, expected {:g} to {:g}",
                                    rate, kLeastPerNodeDay, kMostPerNodeDay));
  }
  return fleet;
}

const std::vector<Fleet>& published_fleets() {
  static const std::vector<Fleet> kFleets = [] {
    const Json file = parse_json_object(embedded_text(analysis_files(), "fleets.json"), "fleets.json");
    std::vector<Fleet> fleets;
    fleets.reserve(file.size());
    for (const auto& [name, object] : file.items()) {
      fleets.push_back(parse_fleet(object, name, fmt::format("fleets.json: {}", name)));
    }
    return fleets;
  }();
  return kFleets;
}

std::vector<std::string> fleet_names() {
  std::vector<std::string> names;
  names.reserve(published_fleets().size());
  for (const Fleet& fleet : published_fleets()) names.push_back(fleet.name);
  return names;
}

Fleet load_fleet(const std::string& name_or_path) {
  for (const Fleet& fleet : published_fleets()) {
    if (fleet.name == name_or_path) return fleet;
  }
  if (!std::filesystem::exists(name_or_path)) {
    throw InputError(fmt::format("fleet: found {}, expected one of {}, or a file that describes one",
                                 printable(name_or_path), fmt::join(fleet_names(), ", ")));
  }
  const Json object = parse_yaml_object(read_text_file(name_or_path, kMostFleetBytes), name_or_path);
  return parse_fleet(object, std::filesystem::path(name_or_path).stem().string(), printable(name_or_path));
}

}  // namespace plumbline
