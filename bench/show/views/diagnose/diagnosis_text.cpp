#include <fmt/format.h>

#include <algorithm>

#include "bench/show/text/figures.hpp"
#include "bench/show/views/diagnose/diagnosis_report.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostRankColumns = 6;
constexpr std::size_t kShownOperators = 12;

std::string share_header(const Diagnosis& diagnosis, bool expected) {
  std::string text = fmt::format("{:<32} {:>12} {:>6}", "", "measured, s", "%");
  if (expected) text += fmt::format(" {:>13} {:>14}", "predicted, s", "difference, s");
  const std::size_t ranks = diagnosis.ranks.size();
  if (ranks > 1 && ranks <= kMostRankColumns) {
    for (const RankBreakdown& rank : diagnosis.ranks)
      text += fmt::format(" {:>10}", fmt::format("rank {}", rank.rank));
  } else if (ranks > 1) {
    text += fmt::format(" {:>10} {:>10} {:>8}", "least", "most", "of rank");
  }
  return text + "\n";
}

/// One row; `of` gives the seconds of a SharedTime.
template <class Of>
std::string share_row(std::string_view title, const Diagnosis& diagnosis,
                      const std::optional<ExpectedStep>& expected, const Of& of) {
  const double measured = of(diagnosis.time);
  std::string text = fmt::format("{:<32} {:>12.6f} {:>6.1f}", title, measured,
                                 100 * measured / std::max(1e-12, diagnosis.step_s));
  if (expected)
    text += fmt::format(" {:>13.6f} {:>+14.6f}", of(expected->time), measured - of(expected->time));
  const std::size_t ranks = diagnosis.ranks.size();
  if (ranks > 1 && ranks <= kMostRankColumns) {
    for (const RankBreakdown& rank : diagnosis.ranks) text += fmt::format(" {:>10.6f}", of(rank.time));
  } else if (ranks > 1) {
    const auto [least, most] = std::minmax_element(
        diagnosis.ranks.begin(), diagnosis.ranks.end(),
        [&](const RankBreakdown& a, const RankBreakdown& b) { return of(a.time) < of(b.time); });
    text += fmt::format(" {:>10.6f} {:>10.6f} {:>8}", of(least->time), of(most->time), most->rank);
  }
  return text + "\n";
}

std::string rate_of(const TracedOperator& time) {
  if (time.seconds <= 0) return "";
  constexpr double kTera = 1e12;
  const double rate = time.flops / time.seconds;
  if (rate >= kTera) return fmt::format("{:.1f} TFLOP/s", rate / kTera);
  if (rate > 0) return fmt::format("{:.1f} GFLOP/s", rate / 1e9);
  if (time.bytes > 0) return fmt::format("{:.2f} GB/s", time.bytes / time.seconds / 1e9);
  return "";
}

std::string operators_text(const Diagnosis& diagnosis) {
  const RankBreakdown& rank = diagnosis.ranks.front();
  std::string text = fmt::format("\n{:<34} {:<30} {:<16} {:>6} {:>10} {:>6}  rate, rank {}\n", "operator",
                                 "sizes", "category", "calls", "total, s", "%", rank.rank);
  std::size_t shown = 0;
  for (const TracedOperator& each : rank.operators) {
    if (++shown > kShownOperators) break;
    std::string_view title = name_of(each.share).title;
    title = title.substr(0, 16);
    text += fmt::format("{:<34} {:<30} {:<16} {:>6} {:>10.6f} {:>6.1f}  {}\n", each.name.substr(0, 34),
                        each.shapes.substr(0, 30), title, each.count, each.seconds,
                        100 * each.seconds / std::max(1e-12, rank.step.seconds()), rate_of(each));
  }
  return text;
}

std::string findings_text(std::string_view title, const std::vector<StepFinding>& findings) {
  if (findings.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const StepFinding& finding : findings) {
    text += fmt::format("  {:+.4g} s {}\n", finding.seconds, finding.cause);
    if (!finding.change.empty()) text += fmt::format("    change: {}\n", finding.change);
  }
  return text;
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis, const std::optional<ExpectedStep>& expected) {
  const std::size_t ranks = diagnosis.ranks.size();
  std::string text =
      fmt::format("step {} ({} in the trace, by {}), {} rank{}{}{}: {}\n\n", diagnosis.step, diagnosis.steps,
                  diagnosis.found_by, ranks, ranks == 1 ? "" : "s", diagnosis.device.empty() ? "" : ", ",
                  diagnosis.device, readable_time(diagnosis.step_s));
  text += share_header(diagnosis, expected.has_value());
  for (std::size_t i = 0; i < kTimeShares; ++i) {
    const auto share = static_cast<TimeShare>(i);
    const auto of = [share](const SharedTime& time) { return time[share]; };
    text += share_row(name_of(share).title, diagnosis, expected, of);
  }
  text += share_row("step", diagnosis, expected, [](const SharedTime& time) { return time.sum(); });
  double communication = 0;
  double hidden = 0;
  for (const RankBreakdown& rank : diagnosis.ranks) {
    communication += rank.communication_s / static_cast<double>(ranks);
    hidden += rank.hidden_communication_s / static_cast<double>(ranks);
  }
  if (communication > 0)
    text += fmt::format("\ncommunication: {}, of which {} hidden\n", readable_time(communication),
                        readable_time(hidden));
  text += operators_text(diagnosis);
  if (expected && !expected->comparable.empty()) text += fmt::format("\n{}\n", expected->comparable);
  if (expected) text += findings_text("above the prediction, of a step", expected->differences);
  text += findings_text("causes, seconds of a step", diagnosis.findings);
  if (diagnosis.findings.empty())
    text += fmt::format("\nno cause of {:.0f} % of the step or more\n", 100 * kLeastFinding);
  return text;
}

}  // namespace plumbline
