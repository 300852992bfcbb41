// Inputs of the report page.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/show/report/timelines.hpp"

namespace plumbline {

/// Records of one matrix, and where the page finds their timelines.
struct ReportInput {
  std::string title;
  std::vector<Record> records;
  /// The timelines of a record, if there are any; empty: none of any.
  std::function<std::optional<CellTimelines>(const std::string& id)> timelines;
  /// Limit for the bytes of timelines in the page. The excess is left out, memory over time first, and the
  /// page says so.
  std::size_t timeline_budget = std::size_t{16} << 20;
  /// Cells that the page shows; the summary is of all.
  std::size_t most_cells = 5000;
  /// Optional; called with how many of the records are in the page.
  std::function<void(int done, int all)> progress{};
};

}  // namespace plumbline
