// Content of a matrix file for `plumbline oom` besides its cells: published outcomes of them, and hypotheses
// that may explain these (bench/matrix/oom.md).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/record/record.hpp"
#include "core/base/units.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

/// One row of the list `published: cells:`.
struct PublishedOutcome {
  /// Keys that tell which cells, each with the values that it may have. Canonical names.
  std::vector<std::pair<std::string, std::vector<std::string>>> where;
  Status status = Status::ok;  // ok or oom
};

struct Hypothesis {
  std::string name;
  Overrides settings;  // its assumptions, applied to every cell
};

/// Memory of a device that a program's tensors cannot have, as far as known.
struct DeviceShare {
  std::string name;
  std::string source;
  Bytes from, to;  // 0 <= from <= assumed <= to
  Bytes assumed;
};

/// Origin of a budget: the device's memory less the part in use.
struct DeviceMemory {
  Bytes memory;
  std::string source;
  std::vector<DeviceShare> taken;
  Bytes budget() const;
  Bytes least() const;  // with every share at its largest
  Bytes most() const;
};

/// An assumption of the configuration, with its value without it.
struct Assumption {
  std::string name;
  std::string source;
  Overrides without;
};

struct OomMatrix {
  std::string source;  // where the published outcomes stand; empty: none
  std::vector<PublishedOutcome> published;
  std::vector<Hypothesis> hypotheses;
  std::optional<DeviceMemory> device;
  std::vector<Assumption> assumptions;

  /// Published outcome of this cell.
  std::optional<Status> published_of(const MatrixCell& cell) const;
};

/// Reads the keys `published` and `hypotheses` of a matrix file; anything else that a matrix may be read from
/// (load_matrix) has none. Throws InputError: file, line, key, found, expected.
OomMatrix load_oom_matrix(const std::string& source);

}  // namespace plumbline
