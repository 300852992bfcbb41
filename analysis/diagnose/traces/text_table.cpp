#include "analysis/diagnose/traces/text_table.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.hpp"

namespace plumbline {

TextTable::TextTable(std::string origin) : origin_(std::move(origin)) {
  index_of("");
}

std::uint32_t TextTable::index_of(std::string_view text) {
  constexpr std::size_t kLongest = 400;
  text = text.substr(0, kLongest);
  const auto known = index_.find(text);
  if (known != index_.end()) return known->second;
  bytes_ += static_cast<std::int64_t>(text.size());
  if (static_cast<std::int64_t>(texts_.size()) >= kMostTraceTexts || bytes_ > kMostTextBytes) {
    throw InputError(
        fmt::format("{}: found more than {} different names, expected fewer; profile fewer steps", origin_,
                    texts_.size()));
  }
  const auto place = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  index_.emplace(std::string(text), place);
  return place;
}

std::vector<std::string> TextTable::take() {
  return std::exchange(texts_, {});
}

}  // namespace plumbline
