#include "bench/show/text/record_stream.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace plumbline {
namespace {

using ConfigPair = std::pair<std::string, std::string>;

template <class Report>
void drop_ranks(std::optional<Report>& report) {
  if (!report) return;
  report->memory.ranks = {};
  if (!report->device_memory) return;
  DeviceMemoryReport& device = *report->device_memory;
  if (const DeviceMemoryRow* most = device.fullest(); most != nullptr)
    device.ranks = {DeviceMemoryRow(*most)};
}

/// Configuration keys with the same value in all records so far.
class CommonConfig {
 public:
  /// Removes them from `record`. Keys that differ for the first time go back to the `earlier` records.
  void trim(Record& record, std::vector<Record>& earlier) {
    if (!known_) {
      known_ = true;
      common_ = record.config;
      std::erase_if(common_, [](const ConfigPair& pair) { return is_always_shown(pair.first); });
    }
    const auto has = [](const std::vector<ConfigPair>& config, const ConfigPair& pair) {
      return std::find(config.begin(), config.end(), pair) != config.end();
    };
    std::vector<ConfigPair> differing;
    for (const ConfigPair& pair : common_) {
      if (!has(record.config, pair)) differing.push_back(pair);
    }
    for (const ConfigPair& pair : differing) {
      std::erase(common_, pair);
      for (Record& each : earlier) each.config.push_back(pair);
    }
    std::vector<ConfigPair> own;
    for (ConfigPair& pair : record.config) {
      if (!has(common_, pair)) own.push_back(std::move(pair));
    }
    own.shrink_to_fit();
    record.config = std::move(own);
  }
  const std::vector<ConfigPair>& keys() const { return common_; }

 private:
  static bool is_always_shown(std::string_view key) {
    static constexpr std::array<std::string_view, 3> kKeys = {
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size"};
    return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
  }

  bool known_ = false;
  std::vector<ConfigPair> common_;
};

}  // namespace

RecordStream::RecordStream(const std::string& folder_or_file) : file_(folder_or_file) {
  file_.each([&](const Record& record, LineSpan place) { add(record, place); });
}

void RecordStream::add(const Record& record, LineSpan place) {
  Entry entry{place};
  if (record.prediction) entry.predicted = record.prediction->time.step.value;
  if (record.measurement) entry.measured = record.measurement->time.step.value;
  const auto [at, fresh] = places_.try_emplace(record.id, entries_.size());
  if (fresh) {
    entries_.push_back(entry);
  } else {
    entries_[at->second] = entry;
  }
  for (const auto& pair : record.config) {
    if (std::find(keys_.begin(), keys_.end(), pair.first) == keys_.end()) keys_.push_back(pair.first);
  }
}

void RecordStream::each(const std::function<void(const Record&)>& take) const {
  for (const Entry& entry : entries_) {
    Record record = file_.at(entry.place);
    const auto base = record.baseline ? places_.find(record.baseline->id) : places_.end();
    if (base != places_.end()) {
      const auto ratio = [](double of_base, double mine) {
        return of_base >= 0 && mine > 0 ? of_base / mine : StepReport::kUnknown;
      };
      record.baseline->predicted = ratio(entries_[base->second].predicted, entry.predicted);
      record.baseline->measured = ratio(entries_[base->second].measured, entry.measured);
    }
    take(record);
  }
}

std::vector<Record> load_figures(const std::string& folder_or_file) {
  std::vector<Record> records;
  std::unordered_map<std::string, std::size_t> places;
  CommonConfig common;
  RecordFile(folder_or_file).each([&](Record record, LineSpan) {
    drop_ranks(record.prediction);
    drop_ranks(record.measurement);
    if (record.measurement) {
      record.measurement->losses = {};
      record.measurement->computing = {};
    }
    common.trim(record, records);
    const auto [place, fresh] = places.try_emplace(record.id, records.size());
    if (fresh) {
      records.push_back(std::move(record));
    } else {
      records[place->second] = std::move(record);
    }
  });
  if (!records.empty()) {
    std::vector<ConfigPair>& first = records.front().config;
    first.insert(first.end(), common.keys().begin(), common.keys().end());
  }
  set_speedups(records);
  return records;
}

}  // namespace plumbline
