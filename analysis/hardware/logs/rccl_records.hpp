// Rows with rccl-tests' keys, as JSON or CSV: its own files, and ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/logs/log_sweep.hpp"

namespace plumbline {

/// True if a text begins as such a file does.
bool looks_like_records(std::string_view text);

/// The rows as sweeps: an array or lines of JSON objects, or CSV with a line of names. Parsed as untrusted
/// input. Throws InputError.
std::vector<LogSweep> read_records(std::string_view text, const std::string& origin);

}  // namespace plumbline
