// The prediction of a matrix's cell as its record.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "bench/record/record.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

/// Files beside the records that could not be stored: the cells are well without.
class Unsaved {
 public:
  void add(const std::string& why);
  /// A line on standard error, if there is any.
  void tell() const;

 private:
  int count_ = 0;
  std::string first_;
};

/// Notes on all cells: the last one, doubts about hardware profiles, files that could not be stored.
struct CellNotes {
  std::string note;
  std::set<std::string> doubts;  // each is reported once
  Unsaved unsaved;
};

/// Predicts `cell` into `record`, and its timeline into the file `timeline`, if there is one. `alone`: it
/// will not be measured, so that the record says why it would not fit. Throws InputError as step_for() does.
void predict_cell(const MatrixCell& cell, const std::optional<std::string>& timeline, bool alone,
                  CellNotes& notes, Record& record);

}  // namespace plumbline
