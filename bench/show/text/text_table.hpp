// Cells in columns for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumbline {

class TextTable {
 public:
  /// A column of cells to the right; `left`: of words. `spare`: left out where the table is wider than its
  /// place, the last one first. Columns come before rows.
  void column(std::string title, bool left = false, bool spare = false);
  void row(std::vector<std::string> cells);

  /// Characters of the widest line.
  std::size_t width() const;
  /// A line of titles, then one a row, without blanks at their ends. Columns beyond `width` follow in a table
  /// below, behind the first column again; 0: no limit.
  std::string text(int width = 0) const;

 private:
  struct Column {
    std::string title;
    bool left = false;
    bool spare = false;
    std::size_t width = 0;
  };
  std::string lines(const std::vector<std::size_t>& shown) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace plumbline
