// Probable range of a run's result, by the errors of predictions for published runs that resemble it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/published/known_runs.hpp"
#include "analysis/published/published.hpp"

namespace plumbline {

/// Interval that eight of ten runs fall into, as multiples `low` to `high` of the predicted value.
struct ErrorInterval {
  double low = 0;
  double high = 0;
  int rows = 0;     // published runs near the run
  int origins = 0;  // their repositories and papers
};

/// exp(-d²/2) of the distance d between two runs: 1 for equal traits. A doubling of GPUs counts as a third,
/// of tokens per GPU a sixth, of the GPU's rate two thirds; a year between releases of software a half.
/// These are judgements, none is fitted.
double resemblance(const RunKind& one, const RunKind& other);

/// The published runs of a kind (dense or MoE) and a quantity, each weighted by its resemblance to a run. All
/// rows of one origin weigh as much together as the nearest of them, because they err alike.
class ComparableRuns {
 public:
  /// Runs of the origin `left_out` do not count.
  ComparableRuns(const std::vector<KnownRun>& known, const RunKind& run, const std::string& quantity,
                 const std::string& left_out = "");

  /// The central 80 % of published ÷ predicted. Nothing where fewer than ten runs of three origins are near.
  std::optional<ErrorInterval> interval() const;
  /// Published ÷ predicted that this share of the runs, from 0 to 1, is not above.
  double ratio_at(double share) const;
  /// Share of the runs whose memory, in proportion, would exceed the limit of `fit`, of known peaks.
  double share_beyond(const Fit& fit) const;
  /// The run that resembles most; nullptr without one.
  const KnownRun* nearest() const { return nearest_; }

 private:
  struct Weighted {
    double ratio = 0;
    double weight = 0;
  };
  std::vector<Weighted> runs_;  // ascending
  double weight_ = 0;           // of all
  ErrorInterval near_;          // counts alone
  const KnownRun* nearest_ = nullptr;
};

/// A table whose rows were held against the intervals of other origins' runs. The interval of a row that
/// leaves settings open spans those of its lowest and its highest prediction.
struct HeldOutTable {
  std::string table;
  int rows = 0;          // with an interval
  int incomparable = 0;  // without
  int inside = 0;
  double width = 0;  // of the intervals, mean
};
/// Every table with rows of the quantity.
std::vector<HeldOutTable> hold_out_tables(const std::vector<ComparedTable>& tables,
                                          const std::vector<KnownRun>& known, const std::string& quantity);

}  // namespace plumbline
