// The columns of a table of cells. One list serves the terminal, CSV and the report page, so that a figure
// has the same label everywhere. results/README.md shows it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

enum class CellQuantity {
  peak_memory,
  device_memory,
  step_time,
  comparable,
  bubble,
  dropped_tokens,
  speed_up,
  predicted_throughput,
  throughput
};
/// "memory", "device", "step", "comparable", "bubble", "dropped", "speed-up", "tokens".
std::string_view name_of(CellQuantity quantity);
enum class ColumnSide { predicted, measured, error };
/// The machine speed that a predicted time is for.
enum class AtSpeed { any, calibrated, current };

struct CellColumn {
  CellQuantity quantity;
  ColumnSide side;
  AtSpeed speed;
  std::string_view title;  // without the speed: "predicted"
  std::string_view csv;    // header; empty: not in CSV
  std::string_view json;   // path in a record; empty: a maximum or sum over several places
  /// Bytes, seconds, fractions or tokens/s; NaN when not known.
  double (*of)(const Record&);

  /// "predicted (current machine speed)". A predicted time at the machine's other speed has its basis in
  /// these records: "predicted (calibrated)".
  std::string label(const std::vector<Record>& records) const;
};

/// In the order in which tables show them.
std::span<const CellColumn> cell_columns();

/// True if a column has a predicted time or bubble of a record whose rates are guesses (times_guessed).
bool is_guess(const CellColumn& column, const Record& record);
/// Note below a table with such figures; empty without any.
std::string_view guess_note(const std::vector<Record>& records);

/// " (current machine speed)", or the bases of predicted times in these records: " (calibrated)",
/// " (accelerator's constants)", " (calibrated, guess)".
std::string speed_suffix(AtSpeed speed, const std::vector<Record>& records);

/// Unit and digits of figures.
struct Scale {
  double factor = 1;  // record value × factor = shown value
  const char* unit = "";
  int digits = 3;
};
/// By the median of predictions and measurements.
Scale memory_scale(const std::vector<Record>& records);
Scale time_scale(const std::vector<Record>& records);
std::string shown(double value, const Scale& scale);

/// Units of one table.
struct CellUnits {
  explicit CellUnits(const std::vector<Record>& records)
      : memory(memory_scale(records)), time(time_scale(records)) {}

  Scale of(const CellColumn& column) const;
  /// The value with its digits, of errors with its sign; the unit stands in the labels.
  std::string text(const CellColumn& column, double value) const;
  /// Label of neighbouring columns together: "step time, s".
  std::string group(const CellColumn& column) const;

  Scale memory;
  Scale time;
};

/// True if any record has a measurement; a table of predictions alone has other columns.
bool any_measured(const std::vector<Record>& records);

/// The relevant columns for these records: the current machine speed if one was probed, device memory if it
/// is known, dropped tokens if there are any. Columns of measurements only if there are any.
std::vector<const CellColumn*> columns_to_show(const std::vector<Record>& records);

}  // namespace plumbline
