// Outputs of other benchmarks of networks: nccl-tests, rccl-tests, OSU's and perftest's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/logs/log_sweep.hpp"

namespace plumbline {

inline constexpr std::size_t kMostLogBytes = std::size_t{64} << 20;

/// All sweeps of a text, in its order; lines of other programs between them are skipped. Of nccl-tests' two
/// places each is a sweep. JSON and CSV with rccl-tests' keys are read too, ours among them. Parsed as
/// untrusted input. Throws InputError when there is no table, or a figure is out of range.
std::vector<LogSweep> read_benchmark_log(std::string_view text, const std::string& origin);

/// Fills in from the user: 0 and `unknown` keep the log. Throws InputError where ranks, nodes or the
/// operation stay unknown, or contradict each other.
void complete(LogSweep& sweep, LogOperation operation, int ranks, int nodes, const std::string& origin);

}  // namespace plumbline
