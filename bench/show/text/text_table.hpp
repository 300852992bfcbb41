// Cells in columns for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumbline {

class TextTable {
 public:
  /// A column of cells to the right; `left`: of words. Columns come before rows.
  void column(std::string title, bool left = false);
  void row(std::vector<std::string> cells);

  /// Characters of the widest line.
  std::size_t width() const;
  /// A line of titles, then one a row, without blanks at their ends.
  std::string text() const;

 private:
  struct Column {
    std::string title;
    bool left = false;
  };
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Code points of UTF-8, which are characters of a line but for rare ones.
std::size_t shown_width(const std::string& text);

}  // namespace plumbline
