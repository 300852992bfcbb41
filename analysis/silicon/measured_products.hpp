// Matrix products of a training step by an accelerator's measured table.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "analysis/silicon/time_grid.hpp"

namespace plumbline::silicon {

/// Products in bf16 at burst clocks. The table is read at the first question; for any number of threads.
class MeasuredProducts {
 public:
  explicit MeasuredProducts(std::string accelerator) : accelerator_(std::move(accelerator)) {}

  /// Seconds of m x k by k x n, result in bf16. Larger than the table: in proportion to its FLOPs.
  double seconds(double m, double n, double k) const;
  /// The same, added to an fp32 result: 1/0.93 of a 16-bit result's time, measured by SimuMax for weight
  /// gradients on B200 (results/published/2026/simumax_kernel_efficiency.csv, layout NT).
  double adding_seconds(double m, double n, double k) const;

 private:
  const TimeGrid& grid() const;

  std::string accelerator_;
  mutable std::once_flag read_;
  mutable std::optional<TimeGrid> grid_;
};

}  // namespace plumbline::silicon
