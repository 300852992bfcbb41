// Probable range of a run's result, by the errors of predictions for similar published runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/published/published.hpp"

namespace plumbline {

/// Interval that eight of ten similar runs fall into, as multiples `low` to `high` of the predicted value.
struct ErrorInterval {
  double low = 0;   // published ÷ predicted
  double high = 0;  // published ÷ predicted
  int rows = 0;     // that it rests on
};

/// The central 80 % of published ÷ predicted over comparable rows, which are training runs of the same kind
/// (dense or MoE). They are of the same software if it has at least kEnoughRows of them, else of any. Every
/// table has the same weight, however many rows it has, because rows of one table err alike. Rows of the
/// table `left_out` do not count. Empty without a row.
constexpr int kEnoughRows = 20;
std::optional<ErrorInterval> interval_like(const std::vector<ComparedTable>& tables, const RunTraits& run,
                                           const std::string& quantity, const std::string& left_out = "");

/// A table whose rows were held against the intervals that the other tables give.
struct HeldOutTable {
  std::string table;
  int rows = 0;
  int inside = 0;
  double width = 0;  // of the intervals, mean
};
/// Every table with rows of the quantity that others have an interval for.
std::vector<HeldOutTable> hold_out_tables(const std::vector<ComparedTable>& tables,
                                          const std::string& quantity);

}  // namespace plumbline
