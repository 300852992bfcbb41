// Ranks of a benchmark, started by this process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/benchmarks/bench_options.hpp"
#include "bench/record/collective_row.hpp"

namespace plumbline {

/// The profile that the times are compared with; a guess is noted on standard error.
HardwareProfile bench_hardware(const BenchOptions& options);

/// Layout of the options' ranks on the options' hosts. Throws InputError for what cannot be benchmarked.
Layout checked_bench_layout(const BenchOptions& options);

/// Ranks that measure something together.
struct MeasuredLaunch {
  std::vector<std::string> words;
  int ranks = 1;
  Backend backend = Backend::cpu;
  std::vector<Host> hosts;  // empty: this one
};
/// Starts them and calls `on_json` with each JSON line of rank 0. Returns the exit code, 0 or 1. Throws Error
/// when a rank failed, and errors of `on_json`.
int launch_measured(const MeasuredLaunch& asked, const std::function<void(const std::string&)>& on_json,
                    bool quiet);

/// Starts the ranks and calls `on_row` with every row as it comes. Returns the exit code: 1 for wrong
/// elements. Throws Error when a rank failed, and errors of `on_row`.
int launch_bench(const BenchOptions& options, const Layout& layout,
                 const std::function<void(CollectiveRow)>& on_row, bool quiet);

}  // namespace plumbline
