// Refusals of exports.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Throws InputError: "KEY: found X, which FRAMEWORK's keys do not say; expected Y".
[[noreturn]] void refuse_export(const std::string& framework, const std::string& key,
                                const std::string& found, const std::string& expected);

/// Refuses what only plumbline has, and what no framework's launch file says; with `muon` that optimizer is
/// one that they say.
void check_exportable(const std::string& framework, const RunConfig& config, bool muon = false);

/// A key of Megatron-Core alone that is on, null: none is.
const char* megatron_switch(const RunConfig& config);

/// Nodes, and GPUs of each.
struct ExportNodes {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;
};

}  // namespace plumbline
