// Reader of published tables: comma-separated cells, the first line names the columns; NAME.yaml alongside
// NAME.csv has the values of all rows.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/dialect/table_header.hpp"

namespace plumbline {

/// A table as read: cells as text, by column name. Empty cells stay empty.
struct PublishedTable {
  std::string name;    // file name without .csv
  std::string folder;  // base of relative paths in cells; empty: the current folder
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  TableHeader header;
};

/// Parses a table as untrusted input: sizes and widths are checked. A cell may stand in double quotes, which
/// are doubled inside, and then have commas. Throws InputError naming the file and line.
PublishedTable parse_published(const std::string& text, const std::string& name, const std::string& origin);
/// The tables that are part of the program.
std::vector<PublishedTable> built_in_tables();
/// Every *.csv of a folder, in the order of their names. Each has the NAME.yaml alongside it as its header,
/// or else the program's own header for a table of that name. Throws InputError when the folder cannot be
/// read.
std::vector<PublishedTable> read_tables(const std::string& folder);

}  // namespace plumbline
