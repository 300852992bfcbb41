// Legality of a configuration, decided without its prediction.
#pragma once

#include <optional>
#include <string>

#include "bench/ask/question.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The refusal that a prediction would end with, one line, or nothing. It looks at the compatibility table,
/// the hardware and the sizes that the schedule allows.
std::optional<std::string> why_refused(const RunConfig& config);

/// {"legal": true, "executable", "why_not_executable"} or {"legal": false, "reason"}. `executable`: this
/// build's `run` takes it as well. Memory does not count. Throws InputError as check_readable().
OrderedJson legality_answer(const AskedConfig& asked);

}  // namespace plumbline
