// A table of one record's figures: predicted, measured, and their difference.
#pragma once

#include <functional>
#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Rows of up to three columns; a part of the record that is missing leaves its column out.
class ComparisonSheet {
 public:
  explicit ComparisonSheet(const Record& record);

  using Value = std::function<double(const MemoryReport&, const StepTime&, const Throughput&)>;
  using Print = std::string (*)(double);

  /// NaN: not known. A row of zeros alone is left out: the configuration has nothing of this kind.
  void row(const std::string& name, const Value& value, Print print, bool relative = true);
  /// The same for two numbers.
  void pair(const std::string& name, double predicted, double measured, Print print);
  /// Predicted times and rates follow; the cells of guessed ones say so.
  void begin_times() { guesses_ = record_.prediction && record_.prediction->times_guessed; }
  void end_times() { guesses_ = false; }
  void say(const std::string& line) { text_ += line + '\n'; }
  std::string take() { return std::move(text_); }

 private:
  bool both() const { return record_.prediction && record_.measurement; }
  std::string predicted_cell(const std::string& value) const;

  const Record& record_;
  std::string text_;
  int width_ = 14;  // of the predicted column
  bool guesses_ = false;
};

}  // namespace plumbline
