// Records of large files: one at a time, or their figures alone.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/record/record_store.hpp"

namespace plumbline {

/// The records of load_records(), one at a time. Only an index is in memory; records are parsed twice.
class RecordStream {
 public:
  /// Reads and checks the whole file. Throws InputError.
  explicit RecordStream(const std::string& folder_or_file);
  /// Configuration keys of all records, in the order of their first appearance.
  const std::vector<std::string>& keys() const { return keys_; }
  void each(const std::function<void(const Record&)>& take) const;

 private:
  struct Entry {
    LineSpan place;
    /// Seconds of the step for the speed-ups of others; below 0: none.
    double predicted = -1, measured = -1;
  };
  void add(const Record& record, LineSpan place);

  RecordFile file_;
  std::vector<Entry> entries_;  // the latest of every id, in the order in which the ids first came
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::string> keys_;
};

/// load_records() for tables and comparisons, without figures of single ranks. Configuration keys that have
/// the same value in all records are in the first one alone, except those that tables always show.
std::vector<Record> load_figures(const std::string& folder_or_file);

}  // namespace plumbline
