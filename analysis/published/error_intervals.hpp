// Between what a run will probably end, by how far published runs like it were from their predictions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/published/published.hpp"

namespace plumbline::cluster {

/// Of ten runs like these eight took (or held) between `low` and `high` times what is predicted.
struct ErrorInterval {
  double low = 0;   // published ÷ predicted
  double high = 0;  // published ÷ predicted
  int rows = 0;     // that it rests on
};

/// The central 80 % of published ÷ predicted over rows like the ones asked for: training runs of the same kind
/// (dense, or mixtures of experts), of the same software where there are at least kEnoughRows of it, otherwise of
/// any. Every table counts alike, however many rows it has: rows of one table err alike. Rows of the table
/// `left_out` do not count. Empty without a row.
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

}  // namespace plumbline::cluster
