#include "bench/views/sensitivity_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analysis/hardware/profiles.hpp"
#include "analysis/search/sensitivity.hpp"
#include "bench/evaluate/cluster_schedule.hpp"

namespace plumbline {
namespace {

cluster::Limits limits_of(const RunConfig& config) {
  const cluster::Profiles& profiles = cluster::built_in_profiles();
  const cluster::Machine& machine = profiles.machine(config.machine.hardware);
  cluster::PipelinePlans plans(make_cluster_schedule);
  return cluster::what_limits(
      cluster::job_of(config),
      cluster::schedule_index(config.parallel.schedule, config.parallel.virtual_chunks), machine,
      profiles.generation("plumbline"), plans, config);
}

}  // namespace

std::string what_limits_text(const RunConfig& config) {
  const cluster::Limits limits = limits_of(config);
  std::string text = fmt::format(
      "what limits it (cluster model of {}, step {:.4f} s)\n\none percent more of a constant changes the "
      "step by\n",
      config.machine.hardware, limits.now.step_s);
  for (const cluster::Elasticity& e : limits.hardware) {
    if (std::abs(e.elasticity) < 5e-4) continue;
    text += fmt::format("  {:>+8.3f} %  {} ({:g})\n", e.elasticity, e.constant, e.value);
  }
  text += "\none change of the configuration\n";
  for (const cluster::Change& change : limits.changes) {
    text += fmt::format("  {:>+8.2f} %  {:>8.2f} GiB  {}\n", 100 * (change.step_s / limits.now.step_s - 1),
                        change.peak_bytes / kBytesPerGiB, change.what);
  }
  return text;
}

std::string what_limits_json(const RunConfig& config) {
  const cluster::Limits limits = limits_of(config);
  nlohmann::ordered_json json;
  json["step_s"] = limits.now.step_s;
  json["peak_bytes"] = limits.now.peak_bytes;
  auto& hardware = json["hardware"] = nlohmann::ordered_json::array();
  for (const cluster::Elasticity& e : limits.hardware) {
    hardware.push_back({{"constant", e.constant}, {"value", e.value}, {"elasticity", e.elasticity}});
  }
  auto& changes = json["changes"] = nlohmann::ordered_json::array();
  for (const cluster::Change& change : limits.changes) {
    changes.push_back({{"change", change.what},
                       {"step_s", change.step_s},
                       {"peak_bytes", change.peak_bytes},
                       {"relative", change.step_s / limits.now.step_s - 1}});
  }
  return json.dump(2) + "\n";
}

}  // namespace plumbline
