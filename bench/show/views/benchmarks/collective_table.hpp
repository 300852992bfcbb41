// Benchmarks of collectives as text, row by row: our table, nccl-tests' columns, OSU's form, CSV, JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/record/collective_row.hpp"

namespace plumbline {

/// table: a block per benchmark and place, predicted time beside the measured one; OSU's form for latency and
/// bandwidth. nccl: exactly nccl-tests' 13 columns, out of place and in place. csv: rccl-tests' columns, then
/// ours. json: one array, rccl-tests' keys.
enum class BenchFormat { table, nccl, csv, json };

/// Text of a sweep. Every function returns the lines to print now.
class CollectiveTable {
 public:
  /// Our table leaves count, type, operation and root out where `width` columns (0: no limit) are too few.
  CollectiveTable(BenchFormat format, std::string backend, int width)
      : format_(format), backend_(std::move(backend)), narrow_(width > 0 && width < kWidth) {}

  std::string row(const CollectiveRow& row);
  /// The end: what is held back, wrong elements, mean bus bandwidth.
  std::string end();

  const std::vector<CollectiveRow>& rows() const { return rows_; }

 private:
  static constexpr int kWidth = 132;

  std::string title(const CollectiveRow& row) const;
  /// nccl-tests print both places in a line: rows wait for the end of their benchmark.
  std::string held_lines();

  BenchFormat format_;
  std::string backend_;
  bool narrow_;
  std::vector<CollectiveRow> rows_;
  std::vector<CollectiveRow> held_;
};

}  // namespace plumbline
