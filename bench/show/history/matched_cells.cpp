#include "bench/show/history/matched_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "bench/show/text/record_tables.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestCellValue = 40;
constexpr std::string_view kMeasuringKeys[] = {"steps",        "warmup_steps",   "timeout_s",   "seed",
                                               "save_weights", "save_gradients", "save_routing"};

}  // namespace

std::set<std::string> varying_keys(const std::vector<Record>& records) {
  std::set<std::string> keys;
  std::map<std::string, std::string> first;
  for (const Record& record : records) {
    for (const auto& [key, value] : record.config) {
      const auto [known, fresh] = first.try_emplace(key, value);
      if (!fresh && known->second != value) keys.insert(key);
    }
  }
  return keys;
}

std::map<std::string, std::string> shared_values(const std::vector<Record>& records) {
  std::map<std::string, std::string> values;
  if (records.empty()) return values;
  const std::set<std::string> varying = varying_keys(records);
  for (const auto& [key, value] : records.front().config)
    if (!varying.contains(key)) values[key] = value;
  return values;
}

std::string cell_values(const Record& record, const std::set<std::string>& keys) {
  std::map<std::string, std::string> values;  // whatever their order in the file
  for (const auto& [key, value] : record.config)
    if (keys.contains(key)) values[key] = value;
  std::string text;
  for (const auto& [key, value] : values) text.append(key).append(1, '\n').append(value).append(1, '\n');
  return text;
}

std::string cell_name(const Record& record, const std::set<std::string>& keys) {
  std::string name;
  for (const auto& [key, value] : record.config) {
    if (!keys.contains(key) || (key == "world_size" && keys.size() > 1)) continue;  // it follows
    name +=
        fmt::format("{}{} {}", name.empty() ? "" : ", ", title_of(key), printable(value, kLongestCellValue));
  }
  return name;
}

bool is_measuring_key(std::string_view key) {
  return std::find(std::begin(kMeasuringKeys), std::end(kMeasuringKeys), key) != std::end(kMeasuringKeys);
}

bool MatchedCells::comparable() const {
  return std::all_of(changes.begin(), changes.end(), [](const BaseChange& each) { return each.measuring; });
}

MatchedCells match_cells(const std::vector<Record>& base, const std::vector<Record>& now) {
  MatchedCells matched;
  std::unordered_map<std::string, const Record*> by_id;
  for (const Record& record : now) by_id[record.id] = &record;
  bool all = true;
  for (const Record& before : base) {
    const auto at = by_id.find(before.id);
    matched.pairs.emplace_back(&before, at == by_id.end() ? nullptr : at->second);
    all = all && at != by_id.end();
    if (at != by_id.end()) by_id.erase(at);
  }
  matched.only_new = static_cast<int>(by_id.size());
  if (all || by_id.empty()) return matched;
  const std::map<std::string, std::string> after = shared_values(now);
  std::vector<BaseChange> changes;
  for (const auto& [key, value] : shared_values(base)) {
    const auto at = after.find(key);
    if (at != after.end() && at->second != value)
      changes.push_back({key, value, at->second, is_measuring_key(key)});
  }
  if (changes.empty()) return matched;  // other ids are other cells
  std::set<std::string> swept = varying_keys(base);
  swept.merge(varying_keys(now));
  std::unordered_map<std::string, const Record*> by_values;
  for (const auto& [id, record] : by_id) by_values[cell_values(*record, swept)] = record;
  for (auto& [before, found] : matched.pairs) {
    if (found != nullptr) continue;
    const auto at = by_values.find(cell_values(*before, swept));
    if (at == by_values.end()) continue;
    found = at->second;
    by_values.erase(at);
    --matched.only_new;
    matched.changes = changes;
  }
  return matched;
}

}  // namespace plumbline
