#include "bench/show/views/sensitivity_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/hardware/hardware.hpp"
#include "analysis/search/sensitivity.hpp"
#include "bench/plan/plan.hpp"
#include "bench/show/text/figures.hpp"
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
  std::string text = fmt::format("sensitivity of the step time, {:.4f} s\n", limits.step.value);
  for (const bool fits : {true, false}) {
    const auto line =
        std::ranges::find_if(limits.changes, [&](const ChangedKey& c) { return c.fit.fits == fits; });
    if (line == limits.changes.end()) {
      if (fits && !limits.changes.empty()) text += "\nno single configuration change fits\n";
      continue;
    }
    text += fits ? "\nsingle configuration changes that fit: step time, memory needed, change\n"
                 : "\nsingle configuration changes that do not fit\n";
    for (const ChangedKey& change : limits.changes) {
      if (change.fit.fits != fits) continue;
      text += fmt::format("  {:>+8.2f} %  {:>8.2f} GiB  {}\n", 100 * (change.step / limits.step - 1),
                          gib_of(change.fit.needed), change.what);
    }
  }
  if (!limits.not_varied.empty()) {
    text += fmt::format("\nnot varied, more than {} simulated actions: {}\n",
                        grouped_digits(static_cast<double>(kMostVariedActions)),
                        fmt::join(limits.not_varied, ", "));
  }
  if (limits.hardware.empty()) return text;
  text += fmt::format("\nstep time change per +1 % of a constant of {}\n", config.machine.hardware);
  for (const Elasticity& e : limits.hardware) {
    if (std::abs(e.elasticity) < 5e-4) continue;
    text += fmt::format("  {:>+8.3f} %  {} ({})\n", e.elasticity, e.constant, prefixed_number(e.value));
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
                       {"needed_bytes", change.fit.needed.value},
                       {"fits", change.fit.fits},
                       {"relative", change.step / limits.step - 1}});
  }
  json["not_varied"] = limits.not_varied;
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
