// The published cell that only just does not fit: its memory by category, and the outcome's sensitivity to
// the assumptions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/matrix/oom_matrix.hpp"
#include "bench/matrix/oom_row.hpp"
#include "bench/record/record.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {

/// The cell without one assumption.
struct EdgeLine {
  std::string name;
  std::string source;
  Bytes peak;
};

struct KnifeEdge {
  std::vector<std::pair<std::string, std::string>> cell;  // key and value
  Bytes budget;
  Bytes peak;
  int rank = 0;
  MemoryBreakdown bytes;  // of that rank at its peak
  std::vector<EdgeLine> without;
  std::optional<DeviceMemory> device;
};

/// Predicted peak of the cell with the given values when `settings` are put over it.
using PeakOf = std::function<Bytes(const std::vector<std::pair<std::string, std::string>>& values,
                                   const Overrides& settings)>;

/// Throws InputError when a cell's budget differs from the device's remainder.
void check_device(const DeviceMemory& device, Bytes budget);

/// The cell with the smallest need among those that were published to be out of memory; none when nothing was
/// or nothing is predicted.
std::optional<KnifeEdge> find_knife_edge(const std::vector<OomRow>& rows, const std::vector<Record>& records,
                                         const OomMatrix& matrix, const PeakOf& peak_of);

std::string to_text(const KnifeEdge& edge);
/// {"values", "budget_bytes", "peak_bytes", "margin_bytes", "rank", "<category>_bytes"…, "without": [{"name",
/// "source", "peak_bytes", "margin_bytes"}], "device": {"memory_bytes", "least_budget_bytes",
/// "most_budget_bytes", "source", "taken": […]}}
OrderedJson to_json(const KnifeEdge& edge);

}  // namespace plumbline
