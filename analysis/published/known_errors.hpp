// Prediction errors of a framework's runs in the published tables that are part of the program.
#pragma once

#include <optional>
#include <string>

#include "analysis/published/error_intervals.hpp"

namespace plumbline {

struct KnownError {
  int rows = 0;
  double mean = 0;           // absolute relative error, as a fraction of the published value
  ErrorInterval interval{};  // of runs like these
};
struct KnownErrors {
  std::string software;  // whose runs they are: the one asked for, or the one that it stands for
  std::optional<KnownError> step;
  std::optional<KnownError> peak;
};

/// Errors of the published runs of one `software`, dense or MoE, as under errors_by_software in `validate
/// --json` (results/published/errors_by_software.json, which a test compares). Empty for software without
/// such published runs. A name that stands for another, such as megatron-core for its newest generation, has
/// the runs of that one.
KnownErrors known_errors(const std::string& software, bool mixture);

}  // namespace plumbline
