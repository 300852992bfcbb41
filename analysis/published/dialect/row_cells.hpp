// From a row of a table's file to the runs it holds, as texts by column of the dialect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/published/dialect/published_tables.hpp"

namespace plumbline {

/// Prefix of messages about a row: "my_runs.csv: row 3".
std::string row_origin(const PublishedTable& table, std::size_t row);

/// The number in a cell, from `least` to `most`. Throws InputError with `origin` and `column`.
double cell_number(const std::string& text, const std::string& origin, std::string_view column, double least,
                   double most);

/// One entry per run of the row: configuration keys under their canonical names, empty cells left to the
/// header's defaults. Throws InputError for a column that is neither the dialect's nor explained by the
/// header, for two cells that mean one column, and for a text that the header does not list.
std::vector<Cells> row_cells(const PublishedTable& table, std::size_t row);

/// True if the table holds training runs: measured values are among its columns or follow from its header.
bool holds_runs(const PublishedTable& table);

}  // namespace plumbline
