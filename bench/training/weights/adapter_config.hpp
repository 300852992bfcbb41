// adapter_config.json, PEFT's description of adapters: read for those that a run starts from, written for
// those that it saves.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline::training {

/// The run's adapters as PEFT's LoraConfig writes them.
std::string adapter_config(const RunConfig& config);

/// Holds adapter_config.json in the folder `lora_weights` against the run. Throws InputError: no such file,
/// another rank, scale or set of linear layers than the run's, or a feature that is not executed. Returns
/// remarks on settings without effect, a line each.
std::vector<std::string> check_adapter_config(const RunConfig& config);

}  // namespace plumbline::training
