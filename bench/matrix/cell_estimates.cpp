#include "bench/matrix/cell_estimates.hpp"

#include <algorithm>

#include "bench/evaluate/evaluation.hpp"
#include "bench/measure/calibrate/quick_rates.hpp"
#include "bench/measure/machine/processor_share.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr Seconds kLookAtShare{0.4};  // several periods of a quota
constexpr double kLeastShare = 0.01;

}  // namespace

std::optional<CellDuration> estimate(const MatrixCell& cell, const HardwareOf& hardware_of) {
  if (!cell.invalid.empty() || why_unsupported(cell.config)) return std::nullopt;
  try {
    const HardwareProfile* hardware = hardware_of(cell.config);
    if (hardware == nullptr) return std::nullopt;
    return duration_of(cell.config, *hardware, predict(cell.config, step_for(cell.config), *hardware));
  } catch (const InputError&) {
    return std::nullopt;  // its record will have the reason
  }
}

const HardwareProfile* CellEstimates::hardware_for(const RunConfig& config) {
  const auto key = std::pair(config.machine.backend, config.machine.hardware);
  auto known = profiles_.find(key);
  if (known == profiles_.end()) {
    std::string ignored;
    HardwareProfile hardware = hardware_of(config, ignored);
    if (config.machine.backend == Backend::cpu && hardware.alone.empty())
      hardware = calibration::with_quick_rates(rough_guess());
    known = profiles_.emplace(key, std::move(hardware)).first;
  }
  const bool guessed = known->second.alone.empty() && known->second.accelerator() == nullptr;
  return guessed && config.machine.backend != Backend::cpu ? nullptr : &known->second;
}

std::optional<CellDuration> CellEstimates::of(const MatrixCell& cell) {
  if (hardware_of_) return estimate(cell, hardware_of_);
  auto duration = estimate(cell, [this](const RunConfig& config) { return hardware_for(config); });
  if (!duration || cell.config.machine.backend != Backend::cpu) return duration;
  if (!share_) share_ = std::max(kLeastShare, processor_share(kLookAtShare));
  duration->predicted = duration->predicted / *share_;
  return duration;
}

Seconds CellEstimates::sum(const std::vector<MatrixCell>& cells) {
  Seconds all;
  for (const MatrixCell& cell : cells) {
    if (const auto duration = of(cell)) all += duration->predicted;
  }
  return all;
}

}  // namespace plumbline
