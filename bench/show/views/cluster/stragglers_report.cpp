#include "bench/show/views/cluster/stragglers_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/show/text/figures.hpp"
#include "bench/show/views/cluster/cluster_page.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBlamed = 5;

/// The case whose median step is taken apart: everything together, before anything is replaced.
const NoiseCase& taken_apart(const std::vector<NoiseCase>& cases) {
  for (const NoiseCase& each : cases)
    if (each.everything) return each;
  return cases.front();
}

std::vector<NoiseBlame> most_blamed(const NoiseCase& each) {
  std::vector<NoiseBlame> blame = each.steps.blame;
  blame.resize(std::min(blame.size(), kMostBlamed));
  return blame;
}

nlohmann::ordered_json blame_json(const std::vector<NoiseBlame>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const NoiseBlame& each : all)
    list.push_back({{"rank", each.rank}, {"what", each.what}, {"cost_s", each.cost.value}});
  return list;
}

}  // namespace

std::string noise_cases_text(const std::vector<NoiseCase>& cases) {
  std::string text = fmt::format("{:<32} {:>11} {:>9} {:>11} {:>11} {:>11}\n", "", "mean step", "slowdown",
                                 "5 %", "50 %", "95 %");
  for (const NoiseCase& each : cases) {
    const NoisySteps& steps = each.steps;
    text += fmt::format(
        "{:<32} {:>11} {:>9} {:>11} {:>11} {:>11}\n", each.what, readable_time(steps.mean().value),
        readable_percent(steps.mean() / steps.quiet - 1), readable_time(steps.percentile(0.05).value),
        readable_time(steps.percentile(0.5).value), readable_time(steps.percentile(0.95).value));
  }
  const NoiseCase& whole = taken_apart(cases);
  if (whole.steps.blame.empty()) return text;
  text += fmt::format("\nmedian step, {}: pipeline {} finishes last; time saved without the delay of\n",
                      whole.what, whole.steps.last_replica);
  for (const NoiseBlame& blame : most_blamed(whole))
    text +=
        fmt::format("  rank {:<4} {:<10} {:>11}\n", blame.rank, blame.what, readable_time(blame.cost.value));
  return text;
}

std::string noise_cases_page(const std::string& title, const std::vector<NoiseCase>& cases) {
  PagePart steps{"Steps", "", {{"", "mean step", "slowdown", "5 %", "50 %", "95 %"}, {}}, ""};
  std::vector<PlotCurve> curves;
  curves.reserve(cases.size());
  for (const NoiseCase& each : cases) {
    const NoisySteps& all = each.steps;
    steps.table.rows.push_back(
        {each.what, readable_time(all.mean().value), readable_percent(all.mean() / all.quiet - 1),
         readable_time(all.percentile(0.05).value), readable_time(all.percentile(0.5).value),
         readable_time(all.percentile(0.95).value)});
    PlotCurve& curve = curves.emplace_back();
    curve.name = each.what;
    curve.points.reserve(101);
    for (int percent = 0; percent <= 100; ++percent)
      curve.points.emplace_back(percent, all.percentile(percent / 100.0).value);
  }
  steps.svg = percentile_svg("Step time by percentile of steps", "s", curves);
  const NoiseCase& whole = taken_apart(cases);
  PagePart blame{"Delays of the median step",
                 fmt::format("{}: pipeline {} finishes last.", whole.what, whole.steps.last_replica),
                 {{"rank and action", "time saved without its delay"}, {}},
                 ""};
  for (const NoiseBlame& each : most_blamed(whole)) {
    blame.table.rows.push_back(
        {fmt::format("rank {} {}", each.rank, each.what), readable_time(each.cost.value)});
  }
  std::vector<PagePart> parts = {steps};
  if (!blame.table.rows.empty()) parts.push_back(blame);
  return cluster_page("Step time with stragglers", title, parts);
}

std::string noise_cases_json(const std::vector<NoiseCase>& cases) {
  nlohmann::ordered_json json = {{"quiet_s", cases.front().steps.quiet.value},
                                 {"cases", nlohmann::ordered_json::array()}};
  for (const NoiseCase& each : cases) {
    const NoisySteps& steps = each.steps;
    json["cases"].push_back({{"what", each.what},
                             {"mean_s", steps.mean().value},
                             {"p5_s", steps.percentile(0.05).value},
                             {"p50_s", steps.percentile(0.5).value},
                             {"p95_s", steps.percentile(0.95).value},
                             {"last_replica", steps.last_replica},
                             {"blame", blame_json(steps.blame)},
                             {"slow_gpus", steps.slow_gpus},
                             {"steps", steps.steps.size()},
                             {"pipelines_simulated", steps.simulated}});
  }
  return output_json(json, 2) + "\n";
}

std::string slow_ranks_text(const std::vector<SlowRank>& slow) {
  if (slow.empty()) return "no slow rank found\n";
  std::string text;
  for (const SlowRank& rank : slow) {
    text += fmt::format("pipeline rank {}: compute time {:.3f} x the others ({:.1f} standard errors)\n",
                        rank.rank, rank.factor, rank.certainty);
  }
  return text;
}

std::string slow_ranks_json(const std::vector<SlowRank>& slow) {
  auto list = nlohmann::ordered_json::array();
  for (const SlowRank& rank : slow)
    list.push_back({{"rank", rank.rank}, {"factor", rank.factor}, {"standard_errors", rank.certainty}});
  return output_json(nlohmann::ordered_json{{"slow_ranks", list}}, 2) + "\n";
}

}  // namespace plumbline
