// Ranks of a benchmark, started by this process.
#pragma once

#include <functional>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/benchmarks/bench_options.hpp"
#include "bench/record/collective_row.hpp"

namespace plumbline {

/// The profile that the times are compared with; a guess is noted on standard error.
HardwareProfile bench_hardware(const BenchOptions& options);

/// Layout of the options' ranks on the options' hosts. Throws InputError for what cannot be benchmarked.
Layout checked_bench_layout(const BenchOptions& options);

/// Starts the ranks and calls `on_row` with every row as it comes. Returns the exit code: 1 for wrong
/// elements. Throws Error when a rank failed, and errors of `on_row`.
int launch_bench(const BenchOptions& options, const Layout& layout,
                 const std::function<void(CollectiveRow)>& on_row, bool quiet);

}  // namespace plumbline
