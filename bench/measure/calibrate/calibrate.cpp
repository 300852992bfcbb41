#include "bench/measure/calibrate/calibrate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "bench/measure/calibrate/calibrate_part.hpp"
#include "bench/measure/calibrate/calibrate_progress.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/figures/looks.hpp"
#include "bench/measure/calibrate/rounds.hpp"
#include "bench/measure/machine/machine.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/standard_streams.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

/// Bytes of the optimizer's arrays per second, far beyond the caches.
BytesPerSecond bandwidth_of(const std::vector<OperatorTimes>& tables) {
  const Curve& adam = tables.back().memory_bound.at("adam.fp32");
  return {7 * 4 * adam.sizes.back() / adam.seconds.back()};
}

/// The quieter of two looks at the host, at the beginning and at the end.
void take_lower_host(HardwareProfile& profile, const HardwareProfile& later) {
  const auto of_step = [](const HardwareProfile& p) {  // of a step of a few hundred calls
    return 400 * p.launch_overhead.value + 16 * p.action_overhead.value + p.step_overhead.value;
  };
  const double before = of_step(profile);
  const double after = of_step(later);
  if (before > 0 && after > 0) profile.calibration.noise.host = std::max(before / after, after / before) - 1;
  profile.allocation = std::min(profile.allocation, later.allocation);
  if (after >= before) return;
  profile.launch_overhead = later.launch_overhead;
  profile.action_overhead = later.action_overhead;
  profile.step_overhead = later.step_overhead;
}

/// measure_cold_call on a rank of its own.
Seconds cold_call(const HardwareProfile& profile, bool quiet) {
  const RunFolder scratch(RunFolderUse::files);
  const std::string known = scratch.path() + "/profile.json";
  write_whole_file(known, to_json(profile));
  return parse_hardware(calibration::launch_part({"cold", "--known", known}, 1, quiet), "cold")
      .launch_overhead;
}

void sign(Calibration& calibration) {
  calibration.unix_s = static_cast<std::int64_t>(std::time(nullptr));
  const MachineReport here = this_machine();
  calibration.host = here.host;
  calibration.cpu = here.cpu;
}

/// Duration, steadiness of the machine, and unsettled figures.
std::string about(const Calibration& calibration) {
  std::string text = fmt::format(
      "[calibrate] {:.0f} s; moved meanwhile: compute {:.0f} %, memory {:.0f} %, bandwidth {:.0f} %, "
      "messages "
      "{:.0f} %, host {:.0f} %\n",
      calibration.seconds, 100 * calibration.noise.compute, 100 * calibration.noise.memory,
      100 * calibration.noise.bandwidth, 100 * calibration.noise.messages, 100 * calibration.noise.host);
  if (calibration.seen_once > 0) {
    text += fmt::format("[calibrate] {} of {} figures were looked at only once: there was no time for more\n",
                        calibration.seen_once, calibration.figures);
  }
  if (calibration.unsettled > 0) {
    text += fmt::format(
        "[calibrate] {} of {} figures could not be settled within {:.0f} %: something else runs, or the "
        "machine's "
        "speed changes; calibrate again when it is quiet\n",
        calibration.unsettled, calibration.figures, 100 * calibration::kSettledSpread);
  }
  return text;
}

}  // namespace

void write_profile(const HardwareProfile& profile, const std::string& path) {
  if (path.empty()) {
    fmt::print("{}", to_json(profile));
  } else {
    write_whole_file(path, to_json(profile));
  }
}

int calibrate(const CalibrateOptions& options) {
  if (!options.part.empty()) return calibration::run_part(options);
  if (!options.out.empty()) check_can_write(options.out, "calibrate: --out");

  HardwareProfile profile = calibration::part_profile();
  profile.name = "calibrated";
  profile.kind = Calibrated{available_processors()};
  profile.machine = fmt::format("{} x {}", profile.processors(), this_machine().cpu);
  profile.memory.value =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));

  const Interrupts interrupts;
  const Seconds start = monotonic_now();
  const HardwareProfile host = parse_hardware(calibration::launch_part({"host"}, 1, options.quiet), "host");
  profile.allocation = host.allocation;
  profile.launch_overhead = host.launch_overhead;
  profile.action_overhead = host.action_overhead;
  profile.step_overhead = host.step_overhead;
  calibration::measure_in_rounds(profile, calibration::limits_for(host.peak_fp32, host.peak_16bit), start,
                                 options.quiet);
  const HardwareProfile later = parse_hardware(calibration::launch_part({"host"}, 1, options.quiet), "host");
  take_lower_host(profile, later);
  sign(profile.calibration);
  calibration::CalibrateProgress(options.quiet).show("done", 1);
  if (!options.quiet) say(about(profile.calibration));

  // No datasheet is asked: the peak of a calibrated machine is its best product.
  profile.peak_fp32 = calibration::best_gemm_rate(profile.alone, DType::fp32);
  profile.peak_16bit = calibration::best_gemm_rate(profile.alone, DType::bf16);
  profile.memory_bandwidth = bandwidth_of(profile.alone);
  profile.link_latency = profile.messages.front().seconds.at(1);
  profile.link_bandwidth.value =
      profile.messages.front().seconds.sizes.back() / profile.messages.front().seconds.seconds.back();

  profile.launch_overhead += cold_call(profile, options.quiet);
  write_profile(profile, options.out);
  return 0;
}

}  // namespace plumbline
