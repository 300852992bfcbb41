// Records as CSV and JSON, and the summary of their errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/csv.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/time_basis.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

struct CsvColumn {
  std::string header;
  std::function<std::string(const Record&)> text;
};

std::string field(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

bool is_column(std::string_view json) {
  const auto columns = cell_columns();
  return std::any_of(columns.begin(), columns.end(),
                     [json](const CellColumn& column) { return column.json == json; });
}

/// The header of a figure that tables show, of any other its key behind the prefix.
std::string header_of(std::string_view json, std::string_view prefix, std::string_view key) {
  for (const CellColumn& column : cell_columns()) {
    if (column.json == json) return std::string(column.csv);
  }
  return fmt::format("{}{}", prefix, key);
}

/// `part`: its key in a record.
template <class Report>
void add_report(std::string_view part, std::string_view prefix, std::optional<Report> Record::*member,
                std::vector<CsvColumn>& columns) {
  const auto add = [&](std::string_view group, std::string_view key, auto get) {
    columns.push_back({header_of(fmt::format("{}.{}.{}", part, group, key), prefix, key),
                       [=](const Record& r) { return r.*member ? get(*(r.*member)) : std::string(); }});
  };
  add("memory", "peak_bytes", [](const Report& r) { return fmt::format("{}", r.memory.peak.value); });
  add("memory", "peak_rank", [](const Report& r) { return fmt::format("{}", r.memory.peak_rank); });
  for (const auto& figure : kTimeFigures) {
    if (figure.in_csv) add("time", figure.key, [&](const Report& r) { return field(figure.of(r.time)); });
  }
  for (const auto& figure : kThroughputFigures) {
    if (figure.in_csv || is_column(fmt::format("{}.throughput.{}", part, figure.key)))
      add("throughput", figure.key, [&](const Report& r) { return field(figure.of(r.throughput)); });
  }
  add("device_memory", "device_bytes", [](const Report& r) -> std::string {
    const DeviceMemoryRow* most = r.device_memory ? r.device_memory->fullest() : nullptr;
    return most == nullptr ? "" : fmt::format("{}", most->total.value);
  });
}

/// Behind the configuration.
std::vector<CsvColumn> csv_columns() {
  std::vector<CsvColumn> columns = {
      {"status", [](const Record& r) { return std::string(name_of(r.status)); }},
      {"reason", [](const Record& r) { return r.reason; }}};
  add_report("prediction", "predicted_", &Record::prediction, columns);
  columns.push_back({"predicted_times", [](const Record& r) {
                       return std::string(r.prediction ? name_of(time_basis(*r.prediction)) : "");
                     }});
  for (const CellColumn& column : cell_columns()) {
    if (column.csv == "predicted_device_share" || column.quantity == CellQuantity::speed_up ||
        column.quantity == CellQuantity::comparable)
      columns.push_back({std::string(column.csv), [&](const Record& r) { return field(column.of(r)); }});
  }
  columns.push_back(
      {"predicted_verdict", [](const Record& r) { return r.prediction ? r.prediction->verdict : ""; }});
  columns.push_back({"predicted_chance", [](const Record& r) {
                       return r.prediction && r.prediction->chance ? field(*r.prediction->chance) : "";
                     }});
  add_report("measurement", "measured_", &Record::measurement, columns);
  for (const CellColumn& column : cell_columns()) {
    if (column.json.starts_with("probed.") || column.json.starts_with("error."))
      columns.push_back({std::string(column.csv), [&](const Record& r) { return field(column.of(r)); }});
  }
  columns.push_back({"disturbed", [](const Record& r) -> std::string {
                       return !r.measurement ? "" : r.disturbed() ? "true" : "false";
                     }});
  return columns;
}

std::string line_of(const std::vector<std::string>& fields) {
  std::vector<std::string> escaped;
  escaped.reserve(fields.size());
  for (const std::string& text : fields) escaped.push_back(csv_field(text));
  return fmt::format("{}\r\n", fmt::join(escaped, ","));
}

/// Writes one record per line; the array ends with the object.
class JsonArray {
 public:
  explicit JsonArray(std::FILE* out) : out_(out) {}
  ~JsonArray() { std::fputs(any_ ? "\n]\n" : "[]\n", out_); }
  JsonArray(const JsonArray&) = delete;
  JsonArray& operator=(const JsonArray&) = delete;
  void add(const Record& record) {
    const std::string line = to_line(record);
    std::fputs(any_ ? ",\n" : "[\n", out_);
    std::fwrite(line.data(), 1, line.size(), out_);
    any_ = true;
  }

 private:
  std::FILE* out_;
  bool any_ = false;
};

/// Summary over the records for which `counts`.
template <class Counts, class Error>
std::optional<ErrorSummary> summary_of(const std::vector<Record>& records, Counts&& counts,
                                       Error&& error_of) {
  std::vector<double> errors;
  for (const Record& record : records) {
    if (!record.error || !counts(record)) continue;
    const double error = error_of(*record.error);
    if (!std::isnan(error)) errors.push_back(std::abs(error));
  }
  if (errors.empty()) return std::nullopt;
  return ErrorSummary{median(errors), *std::max_element(errors.begin(), errors.end())};
}

/// Fastest of the predictions that fit; nothing if fewer than two do.
std::optional<FastestCell> fastest_of(const std::vector<Record>& records) {
  std::optional<FastestCell> fastest;
  int fitting = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.status != Status::ok || !record.prediction || !record.prediction->fits) continue;
    ++fitting;
    const Throughput& throughput = record.prediction->throughput;
    if (!fastest || throughput.tokens_per_s_per_gpu > fastest->tokens_per_s_per_gpu)
      fastest = FastestCell{i, throughput.tokens_per_s_per_gpu, throughput.mfu};
  }
  return fitting > 1 ? fastest : std::nullopt;
}

std::string csv_header(const std::vector<std::string>& keys) {
  std::vector<std::string> header = {"id"};
  header.insert(header.end(), keys.begin(), keys.end());
  for (const CsvColumn& figure : csv_columns()) header.push_back(figure.header);
  return line_of(header);
}

std::string csv_row(const Record& record, const std::vector<std::string>& keys) {
  static const std::vector<CsvColumn> kFigures = csv_columns();
  std::vector<std::string> row = {record.id};
  for (const std::string& key : keys) {
    const auto found = std::find_if(record.config.begin(), record.config.end(),
                                    [&](const auto& pair) { return pair.first == key; });
    row.push_back(found == record.config.end() ? "" : found->second);
  }
  for (const CsvColumn& figure : kFigures) row.push_back(figure.text(record));
  return line_of(row);
}

}  // namespace

std::string to_csv(const std::vector<Record>& records) {
  std::vector<std::string> keys;
  for (const Record& record : records) {
    for (const auto& pair : record.config) {
      if (std::find(keys.begin(), keys.end(), pair.first) == keys.end()) keys.push_back(pair.first);
    }
  }
  std::string csv = csv_header(keys);
  for (const Record& record : records) csv += csv_row(record, keys);
  return csv;
}

void write_csv(std::FILE* out, const RecordStream& records) {
  fmt::print(out, "{}", csv_header(records.keys()));
  records.each([&](const Record& record) { fmt::print(out, "{}", csv_row(record, records.keys())); });
}

void write_json_array(std::FILE* out, const std::vector<Record>& records) {
  JsonArray array(out);
  for (const Record& record : records) array.add(record);
}

void write_json_array(std::FILE* out, const RecordStream& records) {
  JsonArray array(out);
  records.each([&](const Record& record) { array.add(record); });
}

Summary summarize(const std::vector<Record>& records) {
  Summary summary;
  summary.cells = static_cast<int>(records.size());
  for (const Record& record : records) ++summary.by_status[static_cast<std::size_t>(record.status)];
  bool any_quiet = false;
  bool any_probed = false;
  for (const Record& record : records) {
    summary.disturbed += record.disturbed() ? 1 : 0;
    any_quiet = any_quiet || (record.error && !record.disturbed());
    any_probed = any_probed || record.probed;
    summary.guessed = summary.guessed || (record.prediction && record.prediction->times_guessed);
  }
  summary.unprobed = speed_suffix(AtSpeed::calibrated, records);
  const auto all = [](const Record&) { return true; };
  const auto quiet = [&](const Record& record) { return !any_quiet || !record.disturbed(); };
  const auto of = [](double ErrorReport::*member) {
    return [member](const ErrorReport& error) { return error.*member; };
  };
  summary.peak_memory = summary_of(records, all, of(&ErrorReport::peak_memory));
  summary.step_time = summary_of(records, quiet, [](const ErrorReport& e) { return e.judged_step_time(); });
  if (any_probed) summary.calibrated_step_time = summary_of(records, quiet, of(&ErrorReport::step_time));
  summary.bubble_fraction =
      summary_of(records, quiet, [](const ErrorReport& e) { return e.judged_bubble_fraction(); });
  if (!any_measured(records)) summary.fastest = fastest_of(records);
  return summary;
}

std::string to_line(const Summary& summary) {
  std::vector<std::string> counts;
  for (std::size_t i = 0; i < summary.by_status.size(); ++i) {
    if (summary.by_status[i] > 0)
      counts.push_back(fmt::format("{} {}", summary.by_status[i], name_of(static_cast<Status>(i))));
  }
  std::string line = fmt::format("{} cell{}", summary.cells, summary.cells == 1 ? "" : "s");
  if (summary.disturbed > 0) counts.push_back(fmt::format("{} of them disturbed", summary.disturbed));
  if (!counts.empty()) line += fmt::format(": {}", fmt::join(counts, ", "));
  if (summary.fastest) {
    line += fmt::format("; fastest predicted cell that fits{}: #{}, {:.1f} tokens/s/GPU",
                        summary.guessed ? " (a guess)" : "", summary.fastest->cell + 1,
                        summary.fastest->tokens_per_s_per_gpu);
    if (summary.fastest->mfu > 0) line += fmt::format(", MFU {:.1f} %", 100 * summary.fastest->mfu);
  }
  if (!summary.peak_memory) return line;
  line += fmt::format("; |error| median/worst: memory {:.2f}/{:.2f} %", summary.peak_memory->median * 100,
                      summary.peak_memory->worst * 100);
  if (!summary.step_time || !summary.bubble_fraction) return line;
  const auto step = [&](const ErrorSummary& error, AtSpeed speed) {
    return fmt::format("{:.1f}/{:.1f} %{}", error.median * 100, error.worst * 100,
                       speed == AtSpeed::calibrated ? summary.unprobed : speed_suffix(speed, {}));
  };
  const bool probed = summary.calibrated_step_time.has_value();
  line += ", step time " + step(*summary.step_time, probed ? AtSpeed::current : AtSpeed::calibrated);
  if (probed) line += ", " + step(*summary.calibrated_step_time, AtSpeed::calibrated);
  return line + fmt::format(", bubble {:.3f}/{:.3f}", summary.bubble_fraction->median,
                            summary.bubble_fraction->worst);
}

}  // namespace plumbline
