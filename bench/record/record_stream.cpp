#include "bench/record/record_stream.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "bench/record/record_store.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

using ConfigPair = std::pair<std::string, std::string>;

/// Passes all records of the file on, outdated ones included. The output of `run --json` has length 0.
void read_all(const RecordFile& file, const std::function<void(Record, LineSpan)>& take) {
  if (file.is_one_record()) {
    take(parse_record(read_text_file(file.path(), kLongestRecord), file.path()), {});
    return;
  }
  int lines = 0;
  read_record_lines(file.descriptor(), 0, file.path(), lines, take);
}

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
  read_all(file_, [&](const Record& record, LineSpan place) { add(record, place); });
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
    Record record = entry.place.length == 0
                        ? parse_record(read_text_file(file_.path(), kLongestRecord), file_.path())
                        : file_.at(entry.place);
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

std::vector<Record> load_records(const std::string& folder_or_file) {
  LatestRecords latest;
  read_all(RecordFile(folder_or_file), [&](Record record, LineSpan) { latest.put(std::move(record)); });
  std::vector<Record> records = latest.take();
  set_speedups(records);
  return records;
}

std::vector<Record> load_figures(const std::string& folder_or_file) {
  std::vector<Record> records;
  std::unordered_map<std::string, std::size_t> places;
  CommonConfig common;
  read_all(RecordFile(folder_or_file), [&](Record record, LineSpan) {
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
  set_speedups(records);
  return records;
}

}  // namespace plumbline
