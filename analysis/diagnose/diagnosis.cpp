#include "analysis/diagnose/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
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
  ranks.reserve(traces.size());
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

/// Ranks, their clocks and the causes of one step.
Diagnosis diagnosis_of_step(const std::vector<ProfileTrace>& traces, const std::vector<StepWindows>& windows,
                            std::int64_t step, const GroupSizes& sizes) {
  const std::vector<int> numbers = ranks_of(traces);
  Diagnosis made;
  made.step = step;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    made.ranks.push_back(break_down(traces[i], window_of(windows[i], step).value(), sizes));
    made.ranks.back().rank = numbers[i];
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
  return made;
}

/// A rank is late in single steps for many reasons: causes of one rank that most other steps do not have
/// become notes.
void keep_repeated(Diagnosis& made, const std::vector<Diagnosis>& others) {
  const auto repeated = [&](const StepFinding& finding) {
    const auto same = [&](const StepFinding& each) {
      return each.rank == finding.rank && each.share == finding.share;
    };
    const auto has = [&](const Diagnosis& other) {
      return std::any_of(other.findings.begin(), other.findings.end(), same);
    };
    const auto times = std::count_if(others.begin(), others.end(), has);
    return finding.rank < 0 || 2 * times >= static_cast<std::ptrdiff_t>(others.size());
  };
  for (const StepFinding& finding : made.findings) {
    if (repeated(finding)) continue;
    made.notes.push_back(fmt::format("not in most steps: {:.3g} s, {}", finding.seconds, finding.cause));
  }
  std::erase_if(made.findings, [&](const StepFinding& finding) { return !repeated(finding); });
}

}  // namespace

Diagnosis diagnose(const std::vector<ProfileTrace>& traces, std::optional<std::int64_t> step,
                   const GroupSizes& sizes) {
  constexpr std::size_t kMostOthers = 4;
  constexpr std::size_t kMostWalked = 20'000'000;  // that are walked over for other steps
  std::vector<StepWindows> windows;
  windows.reserve(traces.size());
  for (const ProfileTrace& trace : traces) windows.push_back(steps_of(trace));
  const std::vector<StepWindow> common = common_steps(windows);
  const bool there =
      std::any_of(common.begin(), common.end(), [&](const StepWindow& each) { return step == each.number; });
  if (step && !there) {
    throw InputError(
        fmt::format("--step: found {}, expected a step of the trace, {} to {}; change the number", *step,
                    common.front().number, common.back().number));
  }
  const std::vector<StepWindow> steady = steady_steps(common);
  const std::int64_t chosen = step.value_or(median_step(steady));
  Diagnosis made = diagnosis_of_step(traces, windows, chosen, sizes);
  std::size_t slices = 0;
  std::int64_t skipped = 0;
  for (const ProfileTrace& trace : traces) {
    slices += trace.slices.size();
    skipped += trace.skipped;
  }
  std::vector<Diagnosis> others;
  for (const StepWindow& each : steady) {
    const bool affordable = others.size() < kMostOthers && (others.size() + 1) * slices <= kMostWalked;
    if (step || traces.size() < 2 || each.number == chosen || !affordable) continue;
    others.push_back(diagnosis_of_step(traces, windows, each.number, sizes));
  }
  if (!others.empty()) keep_repeated(made, others);
  made.found_by = windows.front().found_by;
  made.steps = static_cast<std::int64_t>(windows.front().steps.size());
  made.device = traces.front().device;
  if (made.found_by == "whole trace")
    made.notes.push_back(
        "steps: found no profiler step and no optimizer; the whole trace counts as one step");
  if (skipped > 0) made.notes.push_back(fmt::format("{} slices without a duration are left out", skipped));
  if (made.ranks.size() > 1 && made.clocks.matched == 0 && traces.front().own_end == 0)
    made.notes.push_back("clocks: found no collective that all ranks have; waits for ranks are not known");
  return made;
}

}  // namespace plumbline
