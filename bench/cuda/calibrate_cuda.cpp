#include "bench/cuda/calibrate_cuda.hpp"

#include <fmt/format.h>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/machine/accelerator_name.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

constexpr const char* kMemoryPart = "device";
constexpr const char* kOperatorsPart = "operators";

int run_rank(const CalibrateOptions& options) {
  become_cuda_program();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    HardwareProfile profile = load_hardware(options.hardware);
    if (options.part == kMemoryPart) {
      profile.overhead = measure_device_overhead(session.rank());
    } else {
      measure_device_operators(profile, [&](const char* what, double share) {
        say(fmt::format("[calibrate] {}, {:.0f} %\n", what, 100 * share));
      });
    }
    if (session.rank() == 0) write_profile(profile, options.out);
    return 0;
  });
}

/// Runs the ranks of a part; returns their output.
HardwareProfile run_ranks(const char* part, int ranks, const std::string& hardware,
                          const CalibrateOptions& options) {
  const RunFolder scratch(RunFolderUse::files);
  const std::string file = scratch.path() + "/profile.json";
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = {"calibrate", "--backend", "cuda", "--part", part, "--out", file, "--hardware", hardware};
  spec.ranks = ranks;
  spec.bind_ranks = false;
  spec.timeout = {300};
  spec.on_tick = [] { return !Interrupts::requested(); };
  if (!options.quiet) {
    spec.on_line = [](const OutputLine& line) {
      if (line.text.starts_with("[calibrate]")) say(line.text + "\n");
    };
  }
  const LaunchResult result = launch(spec);
  if (!result.ok()) {
    throw Error(fmt::format("calibrate: part {} on {} ranks: {}", part, ranks, result.reason()));
  }
  return load_hardware(file);
}

}  // namespace

int calibrate_cuda(const CalibrateOptions& options) {
  if (!options.part.empty()) return run_rank(options);
  const CudaFacts& facts = cuda_facts();
  if (const auto reason = why_no_cuda(facts)) throw InputError(*reason);
  const CudaDevice& device = facts.devices.front();
  const std::string hardware =
      options.hardware.empty() ? accelerator_of(device.name, device.memory) : options.hardware;
  if (hardware.empty()) {
    throw InputError(
        fmt::format("calibrate: found the device {}, expected a known accelerator; give --hardware one of "
                    "{}, or a profile",
                    device.name, fmt::join(hardware_preset_names(), ", ")));
  }
  HardwareProfile profile = load_hardware(hardware);

  const Interrupts interrupts;
  if (!options.quiet) say(fmt::format("[calibrate] operators, 1 rank on {}\n", device.name));
  profile = run_ranks(kOperatorsPart, 1, hardware, options);
  if (!options.quiet) say(fmt::format("[calibrate] device memory, 2 ranks on {}\n", device.name));
  profile.overhead = run_ranks(kMemoryPart, 2, hardware, options).overhead;
  profile.name = profile.name + ", calibrated";
  profile.machine = facts.devices.size() > 1 ? device.name : device.name + ", shared-gpu: 2 ranks on 1 GPU";
  write_profile(profile, options.out);
  return 0;
}

}  // namespace plumbline
