// The memory formulas of the literature on the command line: for a number of parameters alone, and next to
// the exact prediction of a configuration.
#pragma once

#include <string>

#include "analysis/memory/first_principles_report.hpp"
#include "bench/record/record.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {

/// `predict --parameters N --dp D`: model states per rank under every ZeRO stage. `parameters` is a number
/// such as 7.5e9. Of the configuration keys only data_parallel_size, precision, grad_dtype and optimizer are
/// used; 16-bit precision without grad_dtype shows both kinds of gradients. Throws InputError.
std::string print_model_states(const std::string& parameters, const Overrides& keys, bool json);

/// For `--explain`.
std::string to_text(const FormulaReport& report);
/// The value of the key "formulas".
OrderedJson to_json(const FormulaReport& report);

}  // namespace plumbline
