// History of a run with injected failures: spans of time in lanes, from its record.
#pragma once

#include <string>
#include <vector>

#include "bench/record/recovery_report.hpp"

namespace plumbline {

struct RecoverySpan {
  Seconds begin;  // since the first step began
  Seconds end;
  std::string what;
};

struct RecoveryLane {
  const char* name;
  const char* style;  // class of the style sheet
  std::vector<RecoverySpan> spans{};
};

/// Steps that were done at a time; they fall where work was lost.
struct RecoveryProgress {
  Seconds at;
  double steps = 0;
};

struct RecoveryLanes {
  std::vector<RecoveryLane> lanes;  // without those that are empty
  std::vector<RecoveryProgress> progress;
};

RecoveryLanes recovery_lanes(const RecoveryReport& report);

}  // namespace plumbline
