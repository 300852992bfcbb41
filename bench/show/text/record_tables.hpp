// Records for people and for other programs: an aligned table of predicted next to measured, CSV, JSON, and a
// summary of the errors.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/show/text/record_stream.hpp"

namespace plumbline {

/// The configuration keys that tables show: the parallel sizes, and every other key in which two records
/// differ.
std::vector<std::string> keys_to_show(const std::vector<Record>& records);
/// A configuration value for people, "-" when the record does not have the key.
std::string value_of(const Record& record, const std::string& key);
/// A key's short name, "tp", if it has one.
std::string title_of(const std::string& key);

struct TableStyle {
  int width = 0;  // columns of the terminal; 0: no limit
  bool color = false;
  std::vector<std::string> columns{};  // names of the only ones to show; empty: all
};

/// Width of the terminal behind standard output; color when it is one and NO_COLOR is not set.
TableStyle style_of_standard_output();

/// One row per record: the configuration keys in which records differ, then memory, step time and bubble,
/// each predicted, measured and their difference. If nothing was measured: the prediction with its memory on
/// the device and its throughput per GPU (bench/show/text/cell_columns.hpp). Times are predicted for the
/// current machine speed if cells were probed; a line below says so. If the width is short the least
/// important columns are dropped. Reasons of cells that are not ok follow below. Throws InputError for a
/// column that the table does not have.
std::string to_table(const std::vector<Record>& records, const TableStyle& style);

/// RFC 4180; one column per configuration key that any record has, then status, reason and all figures in SI
/// units. Predicted times without a speed in their header are at calibrated speed. Unknown figures are empty
/// fields.
std::string to_csv(const std::vector<Record>& records);
/// The same, one record at a time.
void write_csv(std::FILE* out, const RecordStream& records);

/// A JSON array of the records and a line feed, one record after the other. The text of a large store is
/// longer than its data in memory.
void write_json_array(std::FILE* out, const std::vector<Record>& records);
void write_json_array(std::FILE* out, const RecordStream& records);

/// Absolute errors over the cells that were measured and predicted. Times count undisturbed cells only, if
/// there are any, and the current machine speed if that is known.
struct ErrorSummary {
  double median = 0;
  double worst = 0;
};

/// The cell with the most predicted tokens per second and GPU.
struct FastestCell {
  std::size_t cell = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;
};

struct Summary {
  int cells = 0;
  std::array<int, 6> by_status{};  // indexed by Status
  int disturbed = 0;
  bool guessed = false;  // some predicted times come from generic rates
  std::string unprobed;  // speed_suffix of times without a probe
  std::optional<ErrorSummary> peak_memory;
  std::optional<ErrorSummary> step_time;
  std::optional<ErrorSummary> calibrated_step_time;  // at calibrated speed; nothing without probes
  std::optional<ErrorSummary> bubble_fraction;
  std::optional<FastestCell> fastest;  // of several that are predicted to fit, where nothing was measured
};

Summary summarize(const std::vector<Record>& records);
/// "12 cells: 10 ok, 1 oom, 1 invalid; |error| median/worst: memory 0.1/0.3 %, ..."
std::string to_line(const Summary& summary);

}  // namespace plumbline
