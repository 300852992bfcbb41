// Published tables as they are read: comma-separated cells without quotes, the first line names the columns.
#pragma once

#include <string>
#include <vector>

namespace plumbline::cluster {

/// A table as read: cells as text, by column name. Empty cells stay empty.
struct PublishedTable {
  std::string name;  // file name without .csv
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Parses a table as untrusted input: sizes, widths and characters are checked. Throws InputError naming the
/// file and line.
PublishedTable parse_published(const std::string& text, const std::string& name, const std::string& origin);
/// The tables that are part of the program.
std::vector<PublishedTable> built_in_tables();
/// Every *.csv of a folder, in the order of their names. Throws InputError when the folder cannot be read.
std::vector<PublishedTable> read_tables(const std::string& folder);

}  // namespace plumbline::cluster
