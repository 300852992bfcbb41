// Changes that a source made between two of its runs, and whether predictions change alike.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/published.hpp"

namespace plumbline {

/// Two rows of one source whose runs differ in one respect and in nothing else.
struct RunChange {
  std::string table;
  std::string respect;  // recomputation, precision, overlap, ..., or the one key that differs
  std::string from;     // label of the first
  std::string to;
  std::string quantity;
  double predicted = 0;  // the second's figure ÷ the first's
  double published = 0;
  double error() const { return predicted / published - 1; }
};

/// The rows of each source that differ in one respect only: each against the first of them, in the order of
/// the tables (run_respects.hpp).
std::vector<RunChange> run_changes(const std::vector<ComparedTable>& tables);

/// Changes of one respect and quantity together.
struct ChangeErrors {
  std::string respect;
  std::string quantity;
  int changes = 0;
  int scored = 0;     // those that were published as more than kNoChange
  int right = 0;      // of these, predicted in the same direction
  double median = 0;  // of |error| over all changes
};
constexpr double kNoChange = 0.02;  // spread between published times of the same run
std::vector<ChangeErrors> errors_of_changes(const std::vector<RunChange>& changes);

}  // namespace plumbline
