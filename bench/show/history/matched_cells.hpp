// Cells of two folders that are the same run: by id, else by the keys that vary within a folder.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

/// Keys whose values differ among the records.
std::set<std::string> varying_keys(const std::vector<Record>& records);
/// "tp 2, pp 4": values of the keys, with their short names; empty without keys.
std::string cell_name(const Record& record, const std::set<std::string>& keys);
/// Its values of the keys, which no other cell of its folder has.
std::string cell_values(const Record& record, const std::set<std::string>& keys);
/// Values of the keys that every record shares, by key.
std::map<std::string, std::string> shared_values(const std::vector<Record>& records);
/// True for a key that says how a step is measured: other values give the same step.
bool is_measuring_key(std::string_view key);

/// A key that all cells of a folder share, with another value in the other folder.
struct BaseChange {
  std::string key;
  std::string before;
  std::string after;
  bool measuring = false;  // is_measuring_key()
};

struct MatchedCells {
  /// A base record and its cell of the other folder; nullptr: there is none.
  std::vector<std::pair<const Record*, const Record*>> pairs;
  int only_new = 0;
  std::vector<BaseChange> changes;  // of cells whose ids differ
  bool comparable() const;          // all changed keys are measuring ones
};

MatchedCells match_cells(const std::vector<Record>& base, const std::vector<Record>& now);

}  // namespace plumbline
