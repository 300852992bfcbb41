#include "bench/measure/calibrate/calibrate_part.hpp"

#include <fmt/format.h>

#include "bench/measure/calibrate/calibrate_progress.hpp"
#include "bench/measure/calibrate/host_time.hpp"
#include "bench/measure/calibrate/measure.hpp"
#include "bench/measure/calibrate/messages.hpp"
#include "bench/measure/calibrate/probe.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::size_t kLargestPart = std::size_t{256} << 20;  // bytes of a part's output

/// The rate of a product that stays in the caches, from calls of a twentieth of a second.
FlopsPerSecond product_rate(Operators& operators, DType type) {
  constexpr std::int64_t kRows = 256, kWidth = 512;
  constexpr double kLook = 0.05;  // seconds
  Pools pools(kProbePools);
  pools.set_storage(type);
  pools.begin(kMiB, {0});
  const Gemm product{.a = pools.fresh(kRows, kWidth),
                     .b = pools.fresh(kWidth, kWidth),
                     .c = pools.output(kRows, kWidth).at(0),
                     .b_transposed = true};
  operators.gemm(product);
  const double start = monotonic_now().value;
  double calls = 0;
  for (; monotonic_now().value - start < kLook; ++calls) operators.gemm(product);
  return {2.0 * kRows * kWidth * kWidth * calls / (monotonic_now().value - start)};
}

/// Rates of products, for the choice of cells only.
void measure_product_rates(HardwareProfile& profile) {
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  profile.peak_fp32 = product_rate(*operators, DType::fp32);
  profile.peak_16bit = product_rate(*operators, DType::bf16);
}

/// Overheads of allocation and of the training code, apart from the operators.
void measure_overheads(HardwareProfile& profile) {
  profile.allocation = measure_allocation();
  const HostTime host = measure_host_time(profile.allocation);
  profile.launch_overhead = host.call;
  profile.action_overhead = host.action;
  profile.step_overhead = host.step;
}

}  // namespace

HardwareProfile part_profile() {
  HardwareProfile profile;
  profile.name = "part";
  profile.peak_fp32.value = profile.peak_16bit.value = 1;
  profile.memory_bandwidth.value = 1;
  profile.link_bandwidth.value = 1;
  return profile;
}

int run_part(const CalibrateOptions& options) {
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  return session.guard([&] {
    std::string result;
    if (options.part == "looks") {
      CalibrateProgress progress(options.quiet || session.rank() != 0);
      CellLimits limits;
      if (options.most_fp32 > 0) limits.fp32 = options.most_fp32;
      if (options.most_bf16 > 0) limits.bf16 = options.most_bf16;
      const std::vector<Cell> cells = all_cells(limits);
      LookPlan plan;
      plan.seconds = options.seconds;
      plan.round = static_cast<std::uint64_t>(options.round);
      if (!options.known.empty())
        plan.known = parse_looks(read_text_file(options.known, kLargestPart), options.known, cells.size());
      const char* what = options.known.empty() ? "operators" : "operators, unsettled";
      result = to_json(measure(cells, plan, [&](double share) { progress.show(what, share); }));
    } else if (options.part == "messages") {
      HardwareProfile profile = part_profile();
      MessageTimes times = measure_messages();
      profile.collectives = std::move(times.collectives);
      profile.messages.push_back(std::move(times.message));
      result = to_json(profile);
    } else if (options.part == "host") {
      HardwareProfile profile = part_profile();
      measure_overheads(profile);
      measure_product_rates(profile);
      result = to_json(profile);
    } else if (options.part == "cold") {
      HardwareProfile profile = part_profile();
      profile.launch_overhead =
          measure_cold_call(parse_hardware(read_text_file(options.known, kLargestPart), options.known));
      result = to_json(profile);
    } else {
      throw InputError(
          fmt::format("calibrate: --part is {}, expected looks, messages, host or cold", options.part));
    }
    if (session.rank() == 0) write_whole_file(options.out, result);
    return 0;
  });
}

std::string launch_part(const std::vector<std::string>& part, int ranks, bool quiet) {
  const RunFolder scratch(RunFolderUse::files);
  const std::string file = scratch.path() + "/part.json";
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = {"calibrate", "--out", file, "--part"};
  spec.arguments.insert(spec.arguments.end(), part.begin(), part.end());
  spec.ranks = ranks;
  spec.timeout = {120};
  spec.on_tick = [] { return !Interrupts::requested(); };
  if (!quiet) {
    spec.on_line = [](const OutputLine& line) {
      if (line.text.rfind("[calibrate]", 0) == 0) say(line.text + "\n");
    };
  }
  const LaunchResult result = launch(spec);
  if (!result.ok()) {
    throw Error(fmt::format("calibrate: {} on {} ranks: {}", part.front(), ranks, result.reason()));
  }
  return read_text_file(file, kLargestPart);
}

}  // namespace plumbline::calibration
