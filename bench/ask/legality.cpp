#include "bench/ask/legality.hpp"

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

/// Throws InputError for hardware that cannot be read, or on which nothing can be predicted.
std::optional<std::string> refused_by_hardware(const RunConfig& config) {
  if (const HardwareProfile* preset = find_hardware_preset(config.machine.hardware))
    return why_unpredictable(config, *preset);
  std::string note;
  return why_unpredictable(config, hardware_of(config, note));
}

}  // namespace

std::optional<std::string> why_refused(const RunConfig& config) {
  if (config.reinforces()) return why_phases_invalid(config);
  if (auto reason = why_invalid(config)) return reason;
  if (auto reason = why_unpredictable(config)) return reason;
  try {
    // In the order of `predict`.
    if (config.numerics.fp8.on()) {
      if (auto reason = refused_by_hardware(config)) return reason;
    }
    check_step(config);
    return refused_by_hardware(config);
  } catch (const InputError& error) {
    return error.what();
  }
}

OrderedJson legality_answer(const AskedConfig& asked) {
  check_readable(asked);
  std::optional<std::string> reason;
  RunConfig config;
  try {
    std::vector<std::string> notes;
    config = config_of(asked, notes);
    reason = why_refused(config);
  } catch (const InputError& error) {
    reason = error.what();
  }
  if (reason) return {{"legal", false}, {"reason", *reason}};
  if (config.reinforces()) return {{"legal", true}};
  OrderedJson json = {{"legal", true}, {"executable", true}};
  if (const auto missing = why_unsupported(config)) {
    json["executable"] = false;
    json["why_not_executable"] = *missing;
  }
  return json;
}

}  // namespace plumbline
