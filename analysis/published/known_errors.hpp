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
  std::string software;  // whose runs they are: the one asked for, or the one that it stands for
  std::optional<KnownError> step;
  std::optional<KnownError> peak;
};

/// Of the runs of one `software`, dense ones or mixtures of experts, as `validate --json` finds them under
/// errors_by_software (results/published/errors_by_software.json, which a test holds against it); empty for
/// software without such published runs. A name that stands for another, such as megatron-core for its newest
/// generation, has the runs of that one.
KnownErrors known_errors(const std::string& software, bool mixture);

}  // namespace plumbline::cluster
