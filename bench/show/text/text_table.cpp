#include "bench/show/text/text_table.hpp"

#include <algorithm>
#include <utility>

namespace plumbline {
namespace {

constexpr std::size_t kBetween = 2;

std::string padded_cell(const std::string& cell, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, shown_width(cell)), ' ');
  return left ? cell + blanks : blanks + cell;
}

}  // namespace

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void TextTable::column(std::string title, bool left) {
  columns_.push_back({std::move(title), left});
}

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  widths.reserve(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(shown_width(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], shown_width(row[i]));
  }
  return widths;
}

std::size_t TextTable::width() const {
  std::size_t sum = 0;
  for (const std::size_t width : widths()) sum += width + kBetween;
  return sum == 0 ? 0 : sum - kBetween;
}

std::string TextTable::text() const {
  const std::vector<std::size_t> wide = widths();
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string cells;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      cells +=
          (i == 0 ? "" : std::string(kBetween, ' ')) + padded_cell(cell_of(i), wide[i], columns_[i].left);
    cells.erase(cells.find_last_not_of(' ') + 1);
    text += cells + '\n';
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
  return text;
}

}  // namespace plumbline
