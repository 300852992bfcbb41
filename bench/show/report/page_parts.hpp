// The sections of the report page. Everything that comes from a record is escaped here.
#pragma once

#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/show/report/report_input.hpp"

namespace plumbline {

/// "tp 2, pp 1": the keys that differ between records, among those that tables show.
std::string label_of(const Record& record, const std::vector<std::string>& keys);

/// Counts by status and the errors, as tiles. `numbers`: by record, its cell number on the page, 0 for none;
/// empty: all are there, in this order.
std::string summary_html(const std::vector<Record>& records, const std::vector<std::size_t>& numbers = {});
/// Predicted against measured memory, step time and bubble, with the line of equality.
std::string scatter_html(const std::vector<Record>& records);
/// One row per record.
std::string table_html(const std::vector<Record>& records);
/// Map of the tokens that the experts of each layer had and dropped, for every record; empty without MoE
/// layers.
std::string experts_html(const std::vector<Record>& records);
/// Table of fitting and other cells, over the key with most values; empty when nothing has a budget.
std::string fit_html(const std::vector<Record>& records);

/// The time of every run that failures were injected into, in lanes and tables; empty when there is none.
std::string recovery_html(const std::vector<Record>& records);

/// Data of each cell for the page's script: a JSON element, then details in compressed blocks (page_data.cpp)
/// and timelines, one element each.
std::string data_html(const ReportInput& input);

}  // namespace plumbline
