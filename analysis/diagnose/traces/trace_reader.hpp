// Reads Chrome traces: of PyTorch's profiler, and plumbline's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

inline constexpr std::int64_t kMostSlices = 16'000'000;  // about 1 GB of memory

/// The ranks of a file, plain or as .gz: one for PyTorch's profiler, every rank of the measured process for
/// a trace of `plumbline run --trace`. Streams the file; memory grows with the slices that are kept, up to
/// the limits above. Throws InputError with one line for anything that is no such trace.
std::vector<ProfileTrace> read_trace_file(const std::string& path);

}  // namespace plumbline
