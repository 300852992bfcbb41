#include "analysis/diagnose/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Ranks of the traces; the next free number for one that does not say.
std::vector<int> ranks_of(const std::vector<ProfileTrace>& traces) {
  std::set<int> taken;
  for (const ProfileTrace& trace : traces) {
    if (trace.rank < 0 || taken.insert(trace.rank).second) continue;
    throw InputError(fmt::format("{}: found rank {} a second time, expected one trace a rank; leave one out",
                                 trace.origin, trace.rank));
  }
  std::vector<int> ranks;
  int next = 0;
  for (const ProfileTrace& trace : traces) {
    int rank = trace.rank;
    if (rank < 0) {
      while (!taken.insert(next).second) ++next;
      rank = next;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

Diagnosis diagnose(const std::vector<ProfileTrace>& traces, std::optional<std::int64_t> step,
                   const GroupSizes& sizes) {
  const std::vector<int> numbers = ranks_of(traces);
  std::vector<StepWindows> windows;
  windows.reserve(traces.size());
  for (const ProfileTrace& trace : traces) windows.push_back(steps_of(trace));
  Diagnosis made;
  made.step = chosen_step(windows, step);
  made.found_by = windows.front().found_by;
  made.steps = static_cast<std::int64_t>(windows.front().steps.size());
  made.device = traces.front().device;
  std::int64_t skipped = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    made.ranks.push_back(break_down(traces[i], window_of(windows[i], made.step).value(), sizes));
    made.ranks.back().rank = numbers[i];
    skipped += traces[i].skipped;
  }
  std::stable_sort(made.ranks.begin(), made.ranks.end(),
                   [](const RankBreakdown& a, const RankBreakdown& b) { return a.rank < b.rank; });
  const auto count = static_cast<double>(made.ranks.size());
  for (const RankBreakdown& rank : made.ranks) {
    made.step_s += rank.step.seconds() / count;
    for (std::size_t i = 0; i < kTimeShares; ++i) made.time.seconds[i] += rank.time.seconds[i] / count;
  }
  made.clocks = align_clocks(made.ranks);
  made.findings = findings_of(made.ranks, made.clocks, made.step_s);
  if (made.found_by == "whole trace")
    made.notes.push_back(
        "steps: found no profiler step and no optimizer; the whole trace counts as one step");
  if (skipped > 0) made.notes.push_back(fmt::format("{} slices without a duration are left out", skipped));
  if (made.ranks.size() > 1 && made.clocks.matched == 0 && traces.front().own_end == 0)
    made.notes.push_back("clocks: found no collective that all ranks have; waits for ranks are not known");
  return made;
}

}  // namespace plumbline
