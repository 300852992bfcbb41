// How far off predictions of a framework's runs were in the published tables that are part of the program.
#pragma once

#include <optional>
#include <string>

namespace plumbline::cluster {

/// Absolute relative errors, as fractions of what was published.
struct KnownError {
  int rows = 0;
  double mean = 0;
  double p90 = 0;
};
struct KnownErrors {
  std::optional<KnownError> step;
  std::optional<KnownError> peak;
};

/// Of the runs of one `software`, as `validate` found them (results/published/errors_by_software.json, which a
/// test holds against it); empty for software without published runs.
KnownErrors known_errors(const std::string& software);

}  // namespace plumbline::cluster
