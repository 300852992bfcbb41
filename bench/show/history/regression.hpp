// Two sets of records of the same cells: losses, and unexplained gains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/record/record.hpp"

namespace plumbline {

struct Change {
  enum class Kind {
    loss,              // worse by more than the tolerance, or a cell that was ok and is not any more
    explained_gain,    // better, and the prediction has become better as much
    unexplained_gain,  // better, without a reason in the prediction: check before believing it
  };
  Kind kind = Kind::loss;
  std::string id;
  std::string what;   // "step time", "peak memory", "status", "missing"
  std::string text;   // "1.71 s -> 1.92 s (+12.3 %)"
  double before = 0;  // seconds or bytes; 0: the change is none of a figure
  double after = 0;
};

/// Difference of the machine, its software or the configuration in the new records: "versions.plumbline",
/// "cpu", "steps".
struct MachineChange {
  std::string key;
  std::string before;  // several values with commas; empty: none
  std::string after;
};

struct Regression {
  int compared = 0;      // cells that both sides measured
  int new_cells = 0;     // only on the new side
  int within_noise = 0;  // step times that differ by more than the tolerance, but not by more than the noise
  std::vector<Change> changes;  // losses first, then gains without a reason, then the rest
  std::vector<MachineChange> machine{};
  std::vector<MachineChange> configuration{};  // keys that all cells of a side share
  int not_comparable = 0;                      // cells that another value of such a key makes another run
  bool any_loss() const;
};

/// Cells are matched by id, else by the keys that vary within a side (matched_cells.hpp). Step time (the
/// median step) and peak memory are compared: one larger by more than `tolerance` (0.05: 5 %) is a loss, a
/// smaller one a gain. A step time must also be beyond the noise: the cells not disturbed and the intervals
/// of their medians apart. After the probes' correction for the machine's speed the difference must still
/// exceed the tolerance. A gain is explained when the new prediction is smaller than the base's by at least
/// the gain less the tolerance.
Regression compare_records(const std::vector<Record>& base, const std::vector<Record>& now, double tolerance);

/// One line per change, those of the machine, and a summary.
std::string to_text(const Regression& regression, double tolerance);
/// {"tolerance", "compared", "losses", "unexplained_gains", "within_noise", "new_cells",
///  "not_comparable", "machine": [{"key", "before", "after"}], "configuration": the same,
///  "changes": [{"kind", "id", "what", "text", "before", "after"}]}.
std::string to_json(const Regression& regression, double tolerance);
/// The same as a page of its own.
std::string to_html(const Regression& regression, double tolerance, const std::string& title);

/// "5%", "5 %" or "0.05". Throws InputError unless it lies in [0, 1].
double parse_tolerance(std::string_view text);

}  // namespace plumbline
