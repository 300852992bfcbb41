#include "bench/calibrate/calibrate.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "bench/calibrate/assemble.hpp"
#include "bench/calibrate/measure.hpp"
#include "bench/calibrate/messages.hpp"
#include "bench/launch/interrupts.hpp"
#include "bench/launch/launch.hpp"
#include "bench/launch/run_folder.hpp"
#include "bench/text/progress.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/run/processors.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {
namespace {

using calibration::Cell;

/// "[calibrate] operators alone 40 %" on stderr, a line per fifth (on a terminal: one line that changes).
class CalibrateProgress {
 public:
  explicit CalibrateProgress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
  void show(const char* what, double share) {
    if (quiet_) return;
    const int percent = static_cast<int>(share * 100);
    const int step = terminal_ ? 1 : 20;  // percent
    if (what == last_what_ && percent / step == last_percent_ / step) return;
    if (what != last_what_) {
      began_ = Clock::now();
      began_at_ = share;
    }
    last_what_ = what;
    last_percent_ = percent;
    say(fmt::format("{}[calibrate] {:<24}{:>4} %{:<{}}{}", terminal_ ? "\r" : "", what, percent, left(share),
                    terminal_ ? 24 : 0, terminal_ && percent < 100 ? "" : "\n"));
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// Of this part, at the pace that it has had.
  std::string left(double share) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    if (share >= 1 || share - began_at_ < 0.05) return "";
    return fmt::format(", about {} left", readable_duration(seconds * (1 - share) / (share - began_at_)));
  }

  bool quiet_;
  bool terminal_;
  Clock::time_point began_;
  double began_at_ = 0;
  const char* last_what_ = nullptr;
  int last_percent_ = -1;
};

std::vector<Cell> all_cells(DType type) {
  std::vector<Cell> cells = calibration::gemm_cells(type);
  for (auto* more :
       {&calibration::attention_cells, &calibration::memory_bound_cells, &calibration::fp8_cells}) {
    for (Cell& cell : (*more)(type)) cells.push_back(std::move(cell));
  }
  return cells;
}

/// A profile that holds nothing but what a part measures: how parts report.
HardwareProfile part_profile() {
  HardwareProfile profile;
  profile.name = "part";
  profile.peak_fp32.value = profile.peak_16bit.value = 1;
  profile.memory_bandwidth.value = 1;
  profile.link_bandwidth.value = 1;
  return profile;
}

/// The body of a rank of a part.
int run_part(const CalibrateOptions& options) {
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  return session.guard([&] {
    HardwareProfile profile = part_profile();
    if (options.part == "operators") {
      CalibrateProgress progress(options.quiet || session.rank() != 0);
      const bool alone = session.ranks() == 1;
      std::vector<OperatorTimes>& tables = alone ? profile.alone : profile.busy;
      const char* what = alone ? "operators, alone" : "operators, all busy";
      double before = 0;
      for (const DType type : {DType::fp32, DType::bf16}) {
        const std::vector<Cell> cells = all_cells(type);
        const auto seconds =
            calibration::measure(cells, [&](double share) { progress.show(what, before + share / 2); });
        before = 0.5;
        if (session.rank() == 0) calibration::merge(tables, calibration::assemble(cells, seconds));
      }
    } else if (options.part == "messages") {
      calibration::MessageTimes times = calibration::measure_messages();
      profile.all_reduce = std::move(times.all_reduce);
      profile.messages.push_back(std::move(times.message));
    } else {
      throw InputError(fmt::format("calibrate: --part is {}, expected operators or messages", options.part));
    }
    if (session.rank() == 0) write_whole_file(options.out, to_json(profile));
    return 0;
  });
}

/// Starts `ranks` ranks of a part and reads what they measured.
HardwareProfile launch_part(const char* part, int ranks, bool quiet) {
  const RunFolder scratch(RunFolderUse::files);
  const std::string file = scratch.path() + "/profile.json";
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = {"calibrate", "--part", part, "--out", file};
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
    throw Error(fmt::format("calibrate: {} on {} ranks: {}", part, ranks, result.reason()));
  }
  return load_hardware(file);
}

double seconds_of(int repetitions, const std::function<void()>& call) {
  const Seconds start = monotonic_now();
  for (int i = 0; i < repetitions; ++i) call();
  return (monotonic_now() - start).value / repetitions;
}

/// What allocation and bookkeeping cost, apart from the operators.
void measure_overheads(HardwareProfile& profile) {
  Arena arena({0}, host_memory());
  for (int warm = 0; warm < 2; ++warm) {
    profile.allocation.value =
        seconds_of(20'000, [&] { arena.allocate(Category::workspace, "calibration", 16, 16, DType::fp32); });
    profile.action_overhead.value = 2 * seconds_of(20'000, [] { (void)monotonic_now(); });
  }
}

/// Bytes of the optimizer's arrays per second, far beyond the caches.
BytesPerSecond bandwidth_of(const std::vector<OperatorTimes>& tables) {
  const Curve& adam = tables.back().memory_bound.at("adam.fp32");
  return {7 * 4 * adam.sizes.back() / adam.seconds.back()};
}

std::string machine_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
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
  if (!options.part.empty()) return run_part(options);
  if (!options.out.empty()) check_can_write(options.out, "calibrate: --out");

  HardwareProfile profile = part_profile();
  profile.name = "calibrated";
  profile.processors = available_processors();
  profile.machine = fmt::format("{} x {}", profile.processors, machine_name());
  profile.memory.value =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));

  const Interrupts interrupts;
  CalibrateProgress progress(options.quiet);
  measure_overheads(profile);
  profile.alone = launch_part("operators", 1, options.quiet).alone;
  if (profile.processors > 1) {
    profile.busy = launch_part("operators", profile.processors, options.quiet).busy;
  }
  for (const int ranks : {2, 4, 8}) {
    progress.show("messages", (ranks - 2) / 6.0);
    HardwareProfile part = launch_part("messages", ranks, options.quiet);
    for (CollectiveTime& time : part.all_reduce) profile.all_reduce.push_back(std::move(time));
    for (MessageTime& time : part.messages) profile.messages.push_back(std::move(time));
  }
  progress.show("done", 1);

  // No datasheet is asked: the peak of a calibrated machine is its best product.
  profile.peak_fp32 = calibration::best_gemm_rate(profile.alone, DType::fp32);
  profile.peak_16bit = calibration::best_gemm_rate(profile.alone, DType::bf16);
  profile.memory_bandwidth = bandwidth_of(profile.alone);
  profile.link_latency = profile.messages.front().seconds.at(1);
  profile.link_bandwidth.value =
      profile.messages.front().seconds.sizes.back() / profile.messages.front().seconds.seconds.back();

  write_profile(profile, options.out);
  return 0;
}

}  // namespace plumbline
