// How far off predictions of a framework's runs were in the published tables that are part of the program.
#pragma once

#include <optional>
#include <string>

#include "analysis/published/error_intervals.hpp"

namespace plumbline::cluster {

struct KnownError {
  int rows = 0;
  double mean = 0;           // absolute relative error, as a fraction of what was published
  ErrorInterval interval{};  // of runs like these
};
struct KnownErrors {
  std::optional<KnownError> step;
  std::optional<KnownError> peak;
};

/// Of the runs of one `software`, dense ones or mixtures of experts, as `validate --json` finds them under
/// errors_by_software (results/published/errors_by_software.json, which a test holds against it); empty for
/// software without such published runs.
KnownErrors known_errors(const std::string& software, bool mixture);

}  // namespace plumbline::cluster
