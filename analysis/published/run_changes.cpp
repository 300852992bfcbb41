#include "analysis/published/run_changes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/published/run_respects.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

/// Settings of a run in one respect, as text.
std::string respect_text(const Cells& settings, std::string_view respect) {
  return settings_text(settings, [&](std::string_view other) { return other == respect; });
}

/// Compares the rows of a table that differ only in `respect` with the first of them.
void add_changes(const ComparedTable& table, std::string_view respect, std::vector<RunChange>& changes) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const ComparedRow*>> alike;
  std::vector<decltype(alike)::key_type> order;
  for (const ComparedRow& row : table.rows) {
    if (row.traits.settings.empty()) continue;
    auto key = std::tuple{
        row.quantity, row.traits.source,
        settings_text(row.traits.settings, [&](std::string_view other) { return other != respect; })};
    std::vector<const ComparedRow*>& rows = alike[key];
    if (rows.empty()) order.push_back(std::move(key));
    rows.push_back(&row);
  }
  for (const auto& key : order) {
    const std::vector<const ComparedRow*>& rows = alike[key];
    const ComparedRow& first = *rows.front();
    for (const ComparedRow* row : rows) {
      if (respect_text(row->traits.settings, respect) == respect_text(first.traits.settings, respect))
        continue;
      changes.push_back({table.name, std::string(respect), first.label, row->label, row->quantity,
                         row->predicted / first.predicted, row->published / first.published});
    }
  }
}

}  // namespace

std::vector<RunChange> run_changes(const std::vector<ComparedTable>& tables) {
  std::vector<RunChange> changes;
  for (const ComparedTable& table : tables) {
    std::vector<std::string_view> respects;
    for (const ComparedRow& row : table.rows) {
      for (const auto& [key, value] : row.traits.settings) {
        if (!is_setting(key)) continue;
        const std::string_view respect = respect_of(key);
        if (std::find(respects.begin(), respects.end(), respect) == respects.end())
          respects.push_back(respect);
      }
    }
    for (const std::string_view respect : respects) add_changes(table, respect, changes);
  }
  return changes;
}

std::vector<ChangeErrors> errors_of_changes(const std::vector<RunChange>& changes) {
  std::map<std::pair<std::string, std::string>, std::vector<const RunChange*>> groups;
  for (const RunChange& change : changes) groups[{change.respect, change.quantity}].push_back(&change);
  std::vector<ChangeErrors> result;
  result.reserve(groups.size());
  for (const auto& [name, members] : groups) {
    ChangeErrors errors{name.first, name.second};
    std::vector<double> absolute;
    absolute.reserve(members.size());
    for (const RunChange* change : members) {
      absolute.push_back(std::abs(change->error()));
      if (std::abs(change->published - 1) <= kNoChange) continue;
      ++errors.scored;
      errors.right += (change->predicted > 1) == (change->published > 1) ? 1 : 0;
    }
    errors.changes = static_cast<int>(members.size());
    errors.median = median(absolute);
    result.push_back(std::move(errors));
  }
  return result;
}

}  // namespace plumbline
