// The records of a matrix as one page: tables, charts and timelines, predicted beside measured. The file
// needs no network and no other file; its content policy lets nothing run but its own script.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/report/timelines.hpp"

namespace plumbline {

struct ReportInput {
  std::string title;
  std::vector<Record> records;
  /// The timelines of a record, if there are any; empty: none of any.
  std::function<std::optional<CellTimelines>(const std::string& id)> timelines;
  /// Bytes that timelines may take in the page. What does not fit is left out, memory over time first, and
  /// the page says so.
  std::size_t timeline_budget = std::size_t{16} << 20;
  /// Optional; called with how many of the records are in the page.
  std::function<void(int done, int all)> progress{};
};

std::string html_report(const ReportInput& input);

/// html_report() of a folder that `matrix` wrote, or of a .jsonl file. Throws InputError.
std::string html_report_of(const std::string& folder_or_file,
                           const std::function<void(int done, int all)>& progress = {});

}  // namespace plumbline
