// Figures of a record as curves over its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/show/logs/event_file.hpp"

namespace plumbline {

/// Steps of a record and their times. Steps lie back to back before the end of the run; those of the warm-up
/// have no time of their own.
class StepClock {
 public:
  /// `end_unix_s`: of the last step.
  StepClock(const Record& record, double end_unix_s);

  std::int64_t steps() const { return steps_; }
  /// Number of the first timed step, from 1.
  std::int64_t first_timed() const { return steps_ - static_cast<std::int64_t>(seconds_.size()) + 1; }
  double start_unix_s() const { return start_; }
  /// End of a step.
  double unix_s(std::int64_t step) const;
  /// Duration of a timed step; nothing for another.
  std::optional<double> seconds(std::int64_t step) const;

 private:
  std::int64_t steps_ = 0;
  double start_ = 0;
  std::vector<double> seconds_;  // of timed steps; NaN: unknown
  std::vector<double> ends_;     // Unix times of their ends
};

/// A figure of a whole run; NaN: unknown.
struct RunFigure {
  std::string name;  // path of its key in a measurement or a prediction: "time/step_s"
  double predicted = 0;
  double measured = 0;
};
/// Figures that are known on one side at least.
std::vector<RunFigure> run_figures(const Record& record);

/// Whole number of a configuration key.
std::optional<std::int64_t> number_of(const Record& record, std::string_view key);

/// Curves of a record, tagged with the names of run_figures() and `loss`. Step times and losses by step,
/// other figures at the last one; a predicted step time at the first and the last timed step.
struct RecordScalars {
  std::vector<Scalar> measured;
  std::vector<Scalar> predicted;
};
RecordScalars scalars_of(const Record& record, double end_unix_s);

}  // namespace plumbline
