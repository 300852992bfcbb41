#include "analysis/published/published_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

const std::string kNothing;

}  // namespace

const std::string& PublishedRow::text(std::string_view column) const {
  for (std::size_t i = 0; i < table_.columns.size(); ++i) {
    if (table_.columns[i] == column) return table_.rows[row_][i];
  }
  return kNothing;
}

const std::string& PublishedRow::repeated(std::string_view column) const {
  for (std::size_t row = row_ + 1; row-- > 0;) {
    const std::string& cell = PublishedRow(table_, row).text(column);
    if (!cell.empty()) return cell;
  }
  return kNothing;
}

double PublishedRow::number(std::string_view column, double most) const {
  const std::string& cell = repeated(column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value > 0 && value <= most)) {
    fail(column, fmt::format("a number above 0, at most {:g}", most));
  }
  return value;
}

int PublishedRow::integer(std::string_view column, int most) const {
  const double value = number(column, most);
  if (value != std::floor(value)) fail(column, "a whole number");
  return static_cast<int>(value);
}

void PublishedRow::fail(std::string_view column, const std::string& expected) const {
  throw InputError(fmt::format("{}.csv: row {}, column \"{}\": expected {}, found \"{}\"; correct the table",
                               table_.name, row_ + 1, column, expected, printable(repeated(column))));
}

VocabPasses passes_named(std::string method) {
  std::transform(method.begin(), method.end(), method.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return find_vocab_parallel(method).value_or(VocabPasses::none);
}

}  // namespace plumbline
