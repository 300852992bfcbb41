// Ranks of this program that leave one text, without a record.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Starts the ranks of `config` as this program with `arguments` and returns the text that rank 0 wrote to
/// the file of kRecordOutVariable, in `folder`. `on_step`: told of each step that ends and of all. Throws
/// Error: "stopped, `lost`" when the user stops them, else status and reason with the status's exit code.
std::string output_of_ranks(const RunConfig& config, std::vector<std::string> arguments,
                            const std::string& folder, const std::string& lost,
                            const std::function<void(std::int64_t, std::int64_t)>& on_step);

}  // namespace plumbline
