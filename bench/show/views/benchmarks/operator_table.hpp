// Benchmarks of operators as text, row by row: table, CSV, JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/record/operator_row.hpp"

namespace plumbline {

enum class OperatorFormat { table, csv, json };

/// Text of a list of shapes. Every function returns the lines to print now.
class OperatorTable {
 public:
  OperatorTable(OperatorFormat format, std::string backend) : format_(format), backend_(std::move(backend)) {}

  std::string row(const OperatorRow& row);
  /// The end: samples that were left out because of a low clock, median differences.
  std::string end() const;

 private:
  std::string title(const OperatorRow& row) const;

  OperatorFormat format_;
  std::string backend_;
  std::vector<OperatorRow> rows_;
};

}  // namespace plumbline
