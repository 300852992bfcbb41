// A configuration as a launch command of Megatron-LM.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/launch_files/arguments/export_checks.hpp"

namespace plumbline {

/// A torchrun command with random tokens (--mock-data), a line per flag. Reading it gives the configuration's
/// model, sizes, precision, sharding, recomputation and overlap again. Throws InputError (key, found,
/// expected) for what Megatron-LM's flags do not say.
std::string to_megatron_lm(const RunConfig& config, const ExportNodes& nodes);

/// The same without launcher and data: "--seq-length 4096", one or several flags an entry. Errors say that
/// `of` does not say a key.
std::vector<std::string> megatron_flag_lines(const RunConfig& config, const std::string& of);

/// Lean states keep master weights as remainders, unless told otherwise: Transformer Engine's optimizer does
/// with bf16, and an FP8 recipe other than delayed leaves them to Megatron-Core (NVIDIA/Megatron-LM@d98e8a64
/// megatron/core/optimizer/__init__.py).
bool keeps_remainders(const NumericsConfig& numerics);

}  // namespace plumbline
