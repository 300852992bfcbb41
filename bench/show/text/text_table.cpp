#include "bench/show/text/text_table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bench/show/text/wrap.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kBetween = 2;

std::string padded_cell(const std::string& cell, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, columns_of(cell)), ' ');
  return left ? cell + blanks : blanks + cell;
}

}  // namespace

void TextTable::column(std::string title, bool left, bool spare) {
  const std::size_t width = columns_of(title);
  columns_.push_back({std::move(title), left, spare, width});
}

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i)
    columns_[i].width = std::max(columns_[i].width, columns_of(cells[i]));
  rows_.push_back(std::move(cells));
}

std::size_t TextTable::width() const {
  std::size_t sum = 0;
  for (const Column& column : columns_) sum += column.width + kBetween;
  return sum == 0 ? 0 : sum - kBetween;
}

std::string TextTable::lines(const std::vector<std::size_t>& shown) const {
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string cells;
    for (const std::size_t i : shown)
      cells += (cells.empty() ? "" : std::string(kBetween, ' ')) +
               padded_cell(cell_of(i), columns_[i].width, columns_[i].left);
    cells.erase(cells.find_last_not_of(' ') + 1);
    text += cells + '\n';
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
  return text;
}

std::string TextTable::text(int width) const {
  std::vector<std::size_t> left(columns_.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  if (width <= 0 || columns_.empty()) return lines(left);
  const auto limit = static_cast<std::size_t>(width);
  std::size_t all = this->width();
  for (std::size_t i = columns_.size(); i-- > 0 && all > limit;) {
    if (!columns_[i].spare) continue;
    all -= columns_[i].width + kBetween;
    left.erase(std::find(left.begin(), left.end(), i));
  }
  std::string text;
  std::vector<std::size_t> shown = {left.front()};
  std::size_t used = columns_[left.front()].width;
  for (std::size_t at = 1; at < left.size(); ++at) {
    const std::size_t more = kBetween + columns_[left[at]].width;
    if (used + more > limit && shown.size() > 1) {
      text += lines(shown) + '\n';
      shown.resize(1);
      used = columns_[shown.front()].width;
    }
    shown.push_back(left[at]);
    used += more;
  }
  return text + lines(shown);
}

}  // namespace plumbline
