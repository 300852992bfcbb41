// Cells of one row of a published table by column name, checked where they are read.
#pragma once

#include <string>
#include <string_view>

#include "analysis/published/dialect/published_tables.hpp"
#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

class PublishedRow {
 public:
  PublishedRow(const PublishedTable& table, std::size_t row) : table_(table), row_(row) {}

  bool has(std::string_view column) const { return !text(column).empty(); }
  /// Empty when there is no such column or the cell is empty.
  const std::string& text(std::string_view column) const;
  /// The cell, or the nearest one above that is not empty ("empty cells repeat the row above").
  const std::string& repeated(std::string_view column) const;
  /// A number greater than 0 and at most `most`. Throws InputError: table, row, column, what was found.
  double number(std::string_view column, double most = 1e15) const;
  int integer(std::string_view column, int most = 1'000'000) const;
  [[noreturn]] void fail(std::string_view column, const std::string& expected) const;

 private:
  const PublishedTable& table_;
  std::size_t row_;
};

/// The vocabulary passes of a method as the papers write it: "Vocab-1", "Vocab-2", "Interlaced"; none for
/// others.
VocabPasses passes_named(std::string method);

}  // namespace plumbline
