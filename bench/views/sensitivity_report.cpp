#include "bench/views/sensitivity_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analysis/hardware/hardware.hpp"
#include "analysis/search/sensitivity.hpp"
#include "bench/evaluate/plan.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

Limits limits_of(const RunConfig& config) {
  return what_limits(config, load_hardware(config.machine.hardware), step_for);
}

double gib_of(Bytes bytes) {
  return static_cast<double>(bytes.value) / kBytesPerGiB;
}

}  // namespace

std::string what_limits_text(const RunConfig& config) {
  const Limits limits = limits_of(config);
  std::string text = fmt::format(
      "what limits it (step {:.4f} s)\n\none percent more of a constant of {} changes the step by\n",
      limits.step.value, config.machine.hardware);
  for (const Elasticity& e : limits.hardware) {
    if (std::abs(e.elasticity) < 5e-4) continue;
    text += fmt::format("  {:>+8.3f} %  {} ({:g})\n", e.elasticity, e.constant, e.value);
  }
  text += "\none change of the configuration\n";
  for (const ChangedKey& change : limits.changes) {
    text += fmt::format("  {:>+8.2f} %  {:>8.2f} GiB  {}{}\n", 100 * (change.step / limits.step - 1),
                        gib_of(change.peak), change.what, change.fit.fits ? "" : " (does not fit)");
  }
  return text;
}

std::string what_limits_json(const RunConfig& config) {
  const Limits limits = limits_of(config);
  nlohmann::ordered_json json;
  json["step_s"] = limits.step.value;
  json["peak_bytes"] = limits.peak.value;
  json["fits"] = limits.fit.fits;
  auto& hardware = json["hardware"] = nlohmann::ordered_json::array();
  for (const Elasticity& e : limits.hardware) {
    hardware.push_back({{"constant", e.constant}, {"value", e.value}, {"elasticity", e.elasticity}});
  }
  auto& changes = json["changes"] = nlohmann::ordered_json::array();
  for (const ChangedKey& change : limits.changes) {
    changes.push_back({{"change", change.what},
                       {"step_s", change.step.value},
                       {"peak_bytes", change.peak.value},
                       {"fits", change.fit.fits},
                       {"relative", change.step / limits.step - 1}});
  }
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
