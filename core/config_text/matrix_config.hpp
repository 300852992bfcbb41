// A matrix file: many configurations from lists of values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

/// One cell of a matrix: its configuration, or why there is none.
struct MatrixCell {
  std::string id;  // stable: the same keys and values give the same id
  std::vector<std::pair<std::string, std::string>> values;  // the matrix keys of this cell, for tables
  RunConfig config;
  std::string invalid;  // reason, empty when the cell can run
  /// From "memory_budget: 40%": the budget as a share of the cell's own predicted peak. The predicting code
  /// puts it into `config`; 0: the budget is there.
  double budget_share = 0;
  /// The id of the cell that this one is compared with (`baseline:` of the file); empty: none.
  std::string baseline{};
};

/// Cartesian product of the lists under `matrix:`, minus `exclude:`, plus `include:` (GitHub Actions' rules;
/// both may stand under `matrix:` or alongside it). A list may also hold mappings of several keys under any
/// name. An override applies to every cell. A source without lists (a preset, a Hugging Face folder, options
/// alone) is a matrix of one cell.
///
/// Values of varied keys under `baseline:` name the cell that each is compared with; the other keys are
/// equal. An inline model is named by the keys that differ between the cells' models. Cells whose sizes do
/// not divide carry the reason. `size` overrides the file's keys and is overridden by those of the cells; a
/// mapping under `model` or `teacher` overrides the file's mapping there (matrix_fit.hpp). Throws InputError
/// as load_run_config does, and when there are more than 100,000 cells.
std::vector<MatrixCell> load_matrix(const std::string& source, const Overrides& overrides,
                                    const Settings& size = {});

}  // namespace plumbline
