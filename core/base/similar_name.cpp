#include "core/base/similar_name.hpp"

#include <algorithm>

namespace plumbline {
namespace {

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.size(), name.find_first_not_of('-')));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view similar_name(std::string_view name, const std::vector<std::string_view>& known) {
  constexpr std::size_t kLongest = 128;  // the distance takes time in proportion to the length
  name = name.substr(0, kLongest);
  std::string_view nearest;
  std::size_t least = std::string_view::npos;
  for (const std::string_view each : known) {
    const std::size_t longer = std::max(name.size(), each.size());
    if (longer - std::min(name.size(), each.size()) >= least) continue;  // at most as near
    if (const std::size_t distance = edit_distance(name, each); distance < least) {
      least = distance;
      nearest = each;
    }
  }
  const std::string_view bare = without_dashes(name);
  const std::string_view other = without_dashes(nearest);
  const std::size_t most = (std::max(bare.size(), other.size()) + 1) / 3;
  if (edit_distance(bare, other) <= most) return nearest;
  constexpr std::size_t kLeast = 4;
  std::string_view continued;
  for (const std::string_view each : known) {
    if (bare.size() >= kLeast && each.starts_with(name) &&
        (continued.empty() || each.size() < continued.size()))
      continued = each;
  }
  return continued;
}

}  // namespace plumbline
