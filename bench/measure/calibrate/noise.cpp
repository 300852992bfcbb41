#include "bench/measure/calibrate/noise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/followers.hpp"
#include "bench/measure/calibrate/probe.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/show/text/progress.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"
#include "core/run/machine_load.hpp"
#include "core/run/processors.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

using calibration::Cell;
constexpr std::size_t kLargestCsv = std::size_t{64} << 20;

/// The product and the update of calibration that are looked at.
std::vector<Cell> noise_cells() {
  std::vector<Cell> chosen;
  for (Cell& cell : calibration::all_cells()) {
    const bool product = cell.key == "forward.fp32" && cell.at == std::array<double, 3>{256, 256, 1024};
    const bool update = cell.key == "adam.fp32" && cell.at[0] == 1 << 21;
    if (cell.working_set == 1 && (product || update)) chosen.push_back(std::move(cell));
  }
  return chosen;
}

/// Rank 0 of the ranks that look.
std::vector<NoiseSample> look_every_second(const NoiseOptions& options) {
  const std::vector<Cell> cells = noise_cells();
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  calibration::Pools pools(calibration::kProbePools);
  calibration::CellTimer timer(*operators, pools);
  calibration::Followers followers;
  std::vector<NoiseSample> samples;
  using NoiseClock = std::chrono::steady_clock;
  double others_before = followers.processor_seconds();  // returns when they are ready
  const auto start = NoiseClock::now();
  const auto end = start + std::chrono::duration<double>(60 * options.minutes);
  LoadReading before = read_load();
  for (auto next = start + std::chrono::seconds(1); NoiseClock::now() < end && !Interrupts::requested();
       next = std::max(next + std::chrono::seconds(1), NoiseClock::now())) {
    NoiseSample sample;
    sample.second = std::chrono::duration<double>(NoiseClock::now() - start).count();
    double* const figures[][2] = {{&sample.gemm_alone, &sample.gemm_busy},
                                  {&sample.memory_alone, &sample.memory_busy}};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      followers.announce(static_cast<int>(i));
      timer.begin(cells[i], 0);
      followers.start();
      *figures[i][1] = timer.look();
      followers.stop();
      *figures[i][0] = timer.look();
    }
    sample.message = followers.message_seconds();
    std::this_thread::sleep_until(next);
    const LoadReading now = read_load();
    const double others_now = followers.processor_seconds();
    const RankLoad passed = difference(now, before);
    const double all = passed.wall.value * machine_processors();
    sample.others = std::max(0.0, passed.busy.value - passed.own.value - (others_now - others_before)) / all;
    sample.stolen = passed.stolen.value / all;
    sample.involuntary = passed.involuntary;
    sample.frequency = passed.frequency;
    before = now;
    others_before = others_now;
    samples.push_back(sample);
    say(fmt::format("second {} of {:.0f}\n", samples.size(), 60 * options.minutes));
  }
  return samples;
}

int run_rank(const NoiseOptions& options) {
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  return session.guard([&] {
    if (session.rank() != 0) {
      calibration::follow(noise_cells());
      return 0;
    }
    write_whole_file(options.out, to_csv(look_every_second(options)));
    return 0;
  });
}

}  // namespace

int noise(const NoiseOptions& options) {
  if (options.rank) return run_rank(options);
  if (!options.out.empty()) check_can_write(options.out, "calibrate: --out");
  const Interrupts interrupts;
  const RunFolder scratch(RunFolderUse::files);
  const std::string file = scratch.path() + "/noise.csv";
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = {
      "calibrate", "--noise", "--rank", "--out", file, "--minutes", fmt::format("{}", options.minutes)};
  spec.ranks = std::max(2, available_processors());
  spec.timeout = {60 * options.minutes + 60};
  spec.on_tick = [] { return !Interrupts::requested(); };
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  spec.on_line = [&](const OutputLine& line) {
    int second = 0;
    int seconds = 0;
    if (std::sscanf(line.text.c_str(), "second %d of %d", &second, &seconds) == 2)
      progress.update(std::min(second, seconds), seconds, "seconds");
  };
  const LaunchResult result = launch(spec);
  if (!result.ok()) throw Error(fmt::format("calibrate --noise: {}", result.reason()));
  const std::string csv = read_text_file(file, kLargestCsv);
  if (options.out.empty()) {
    fmt::print("{}", csv);
  } else {
    write_whole_file(options.out, csv);
    fmt::print("{}", noise_summary(parse_noise_csv(csv)));
  }
  return 0;
}

}  // namespace plumbline
