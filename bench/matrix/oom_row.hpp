// A cell of `plumbline oom`: its outcome as published, predicted and measured.
#pragma once

#include <optional>
#include <string>

#include "bench/record/record.hpp"
#include "core/base/units.hpp"
#include "core/config_text/matrix_config.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// One outcome: predicted or measured.
struct FitVerdict {
  Status status = Status::ok;  // ok: fits; oom: does not; else it is not known, see the record's reason
  std::optional<Bytes> peak;   // a measured run that went over its budget has none
  int rank = 0;                // whose peak it is
  Category category = Category::workspace;  // that holds most at that peak
  Bytes category_bytes;
  std::string verdict{};           // of a prediction: fits, tight, does not fit, unknown
  std::optional<double> chance{};  // likewise: that it does not fit
};

struct OomRow {
  MatrixCell cell;
  Bytes budget;  // per rank; 0: no bound
  std::optional<Status> published;
  std::optional<FitVerdict> predicted;
  std::optional<FitVerdict> measured;  // absent when nothing was measured
  std::string reason;                  // of a cell that did not end well
};

}  // namespace plumbline
