#include "bench/run/probed_run.hpp"

#include <algorithm>

#include "analysis/hardware/profile_at_speed.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/evaluate/cell_duration.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

ByClass times(const ByClass& values, double factor) {
  ByClass longer;
  for (const SpeedClass& each : kSpeedClasses) longer.*each.member = values.*each.member * factor;
  return longer;
}

}  // namespace

ProbedRun::ProbedRun(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
                     Communicator& control)
    : config_(config),
      schedule_(schedule),
      hardware_(hardware),
      probe_(hardware, config.numerics.precision, control) {
  if (config.machine.backend != Backend::cpu || config.measure.steps == 0 ||
      !calibration::Probe::possible(hardware, config.numerics.precision)) {
    return;
  }
  // A cell of a moment is not worth seconds of probing.
  const Seconds step = predict(config, schedule, hardware).time.step;
  seconds_ = probe_duration(step * (config.measure.steps + config.measure.warmup_steps)).value;
}

void ProbedRun::before() {
  if (seconds_ > 0) before_ = probe_.look(seconds_);
}

void ProbedRun::after() {
  if (seconds_ > 0) after_ = probe_.look(seconds_);
}

std::optional<ProbedReport> ProbedRun::report(const MeasurementReport& measurement) const {
  if (seconds_ <= 0) return std::nullopt;
  const int processors = machine_processors();
  const ParallelConfig& parallel = config_.parallel;
  ProbedReport report{before_.longer, after_.longer, {}, 1, {}};
  report.speed = speed_during(before_, after_, measurement.disturbance.disturbed, processors);
  // Experts lie on ranks of other sequences or of other parts of the same one.
  const int in_step = parallel.tensor * std::max(parallel.context, parallel.expert);
  const Layout layout = config_.layout();
  const std::vector<double> stretch = stretch_by_others(
      measurement,
      {layout.world(), processors, std::min(in_step, layout.tensor * layout.data), layout.pipeline});
  const HardwareProfile alone = at_speed(hardware_, report.speed);
  report.time = predict(config_, schedule_, alone).time;
  // The slowdown that all of them share is the machine's speed, messages included; the rest belongs to single
  // ranks.
  const double common = *std::min_element(stretch.begin(), stretch.end());
  if (*std::max_element(stretch.begin(), stretch.end()) > 1) {
    std::vector<double> besides = stretch;
    for (double& each : besides) each /= common;
    const HardwareProfile shared = at_speed(hardware_, times(report.speed, common));
    const Seconds without = report.time.step;
    report.time = predict(config_, schedule_, shared, besides).time;
    report.stretch = report.time.step / without;
  }
  return report;
}

}  // namespace plumbline
