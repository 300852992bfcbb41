#include "bench/evaluate/cell_duration.hpp"

#include <algorithm>

namespace plumbline {
namespace {

// Limits of a probe.
constexpr Seconds kShortestProbe{0.15};
constexpr Seconds kLongestProbe{1};

constexpr Seconds kStart{0.6};        // mpirun, and its end
constexpr Seconds kStartOfRank{0.2};  // of each that shares a processor with others
constexpr Seconds kAroundProbe{0.2};  // operands

constexpr Seconds kLeastTimeout{60};
constexpr Seconds kLeastOfRough{300};
constexpr double kTimesPredicted = 10;

bool has_files(const FilesConfig& files) {
  const std::string* const all[] = {&files.weights,        &files.data,         &files.loss_mask,
                                    &files.save_gradients, &files.save_weights, &files.save_routing};
  return std::any_of(std::begin(all), std::end(all), [](const std::string* path) { return !path->empty(); });
}

/// Slowdown factor of an emulated step relative to its prediction.
double emulated_factor(const MachineConfig& machine) {
  return machine.emulated_clock == EmulatedTime::virtual_time ? 0 : machine.emulated_time_factor;
}

}  // namespace

Seconds probe_duration(Seconds steps) {
  return {std::clamp(steps.value / 10, kShortestProbe.value, kLongestProbe.value)};
}

CellDuration duration_of(const RunConfig& config, const HardwareProfile& hardware,
                         const Prediction& prediction) {
  const bool emulated = config.machine.backend == Backend::emulated;
  const int count = prediction.fit.fits ? config.measure.warmup_steps + config.measure.steps : 1;
  Seconds steps = static_cast<double>(count) * prediction.time.step;
  CellDuration duration;
  duration.predicted = kStart + static_cast<double>(config.layout().world()) * kStartOfRank;
  if (emulated) steps = steps * emulated_factor(config.machine);
  if (config.machine.backend == Backend::cpu)
    duration.predicted += 2 * (probe_duration(steps) + kAroundProbe);
  duration.predicted += steps;
  duration.rough = emulated || hardware.alone.empty() || has_files(config.files);
  return duration;
}

Seconds derived_timeout(const CellDuration& duration, double pace) {
  const Seconds derived = kLeastTimeout + kTimesPredicted * std::max(1.0, pace) * duration.predicted;
  return duration.rough ? std::max(derived, kLeastOfRough) : derived;
}

}  // namespace plumbline
