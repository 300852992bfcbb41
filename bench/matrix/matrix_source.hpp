// The cells that a matrix file stands for on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/matrix/cell_estimates.hpp"
#include "core/config_text/matrix_config.hpp"
#include "core/config_text/matrix_fit.hpp"

namespace plumbline {

class MatrixSource {
 public:
  /// `source` and `overrides` as for load_matrix(). Throws InputError for a section `fit:` that is wrong.
  MatrixSource(std::string source, Overrides overrides);

  /// For a file with a section `fit:`: takes the size that an earlier run into `folder` chose, else chooses
  /// one and, with `keep`, keeps it there.
  void fit_machine(const std::string& folder, bool keep, CellEstimates& estimates);

  /// With `more` under the overrides. Budgets that are shares of a predicted peak are bytes.
  std::vector<MatrixCell> cells(const Overrides& more = {}) const;

  /// The size and why, for people; empty: there are none to choose from.
  const std::string& chosen() const { return chosen_; }

 private:
  std::vector<MatrixCell> cells_of(const Settings& size, const Overrides& more) const;

  std::string source_;
  Overrides overrides_;
  std::optional<MatrixFit> fit_;
  Settings size_;
  std::string chosen_;
};

}  // namespace plumbline
