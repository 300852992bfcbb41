// The table of `plumbline oom`: fitting cells, the deciding memory, and the score of hypotheses on published
// outcomes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/predict/fit.hpp"
#include "bench/matrix/oom_row.hpp"
#include "bench/matrix/tightest_cell.hpp"
#include "bench/record/record.hpp"
#include "core/base/units.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

/// Score of a hypothesis on the published outcomes.
struct HypothesisRow {
  std::string name;
  Bytes budget;  // the smallest of its cells
  int right = 0;
  int wrong = 0;
  /// The published outcomes follow from every budget from `fitting` on that is below `missing`, if any.
  std::optional<Bytes> fitting;  // largest peak of a cell that was published to run
  std::optional<Bytes> missing;  // smallest peak of one that was published to be out of memory
  bool explains() const { return wrong == 0 && right > 0; }
};

struct OomTable {
  std::string source;
  std::vector<OomRow> rows;
  std::vector<HypothesisRow> hypotheses;
  std::optional<KnifeEdge> edge;
};

/// Row of one cell from its record. `fit`: the predicted verdict on it.
OomRow row_of(const MatrixCell& cell, const Record& record, const Fit& fit, std::optional<Status> published,
              bool predicted_only);

/// Counts a cell for a hypothesis.
void count_cell(HypothesisRow& row, Status published, const Fit& fit);

/// Number of cells with equal outcomes and equal peaks.
struct OomAgreement {
  int measured = 0;     // cells with an outcome that is fits or out of memory, predicted and measured
  int same_status = 0;  // of them
  int peaks = 0;        // cells with a predicted and a measured peak
  int same_peak = 0;    // of them, to the byte
  int published = 0;    // cells with a published and a predicted outcome
  int same_as_published = 0;
};
OomAgreement agreement_of(const std::vector<OomRow>& rows);

/// For people: one line per cell, differences between prediction and measurement, the hypotheses with the
/// margins on both sides of the published threshold, the knife edge; in tables of `width` columns (0: no
/// limit).
std::string to_text(const OomTable& table, int width = 0);
/// {"source", "cells": [{"id", "values", "budget_bytes", "published", "predicted": {"status", "verdict",
/// "chance", "peak_bytes", "margin_bytes", "rank", "category", "category_bytes"}, "measured": {…},
/// "reason"}], "agreement":
/// {"measured_cells", "same_status", "measured_peaks", "same_peak", "published_cells", "same_as_published"},
/// "hypotheses":
/// [{"name", "budget_bytes", "right", "wrong", "explains", "fitting_peak_bytes", "missing_peak_bytes"}],
/// "knife_edge": see knife_edge.hpp, or null}
std::string to_json(const OomTable& table);

}  // namespace plumbline
