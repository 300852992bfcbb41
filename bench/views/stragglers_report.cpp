#include "bench/views/stragglers_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/text/figures.hpp"

namespace plumbline {

std::string noise_cases_text(const std::vector<NoiseCase>& cases) {
  std::string text = fmt::format("{:<32} {:>11} {:>9} {:>11} {:>11} {:>11}\n", "", "mean step", "longer by",
                                 "5 %", "50 %", "95 %");
  for (const NoiseCase& each : cases) {
    const NoisySteps& steps = each.steps;
    text += fmt::format(
        "{:<32} {:>11} {:>9} {:>11} {:>11} {:>11}\n", each.what, readable_time(steps.mean().value),
        readable_percent(steps.mean() / steps.quiet - 1), readable_time(steps.percentile(0.05).value),
        readable_time(steps.percentile(0.5).value), readable_time(steps.percentile(0.95).value));
  }
  return text;
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
                             {"slow_gpus", steps.slow_gpus},
                             {"steps", steps.steps.size()},
                             {"pipelines_simulated", steps.simulated}});
  }
  return json.dump(2) + "\n";
}

std::string slow_ranks_text(const std::vector<SlowRank>& slow) {
  if (slow.empty()) return "no slow rank\n";
  std::string text;
  for (const SlowRank& rank : slow) {
    text +=
        fmt::format("pipeline rank {} takes {:.3f} times as long as the others ({:.1f} standard errors)\n",
                    rank.rank, rank.factor, rank.certainty);
  }
  return text;
}

std::string slow_ranks_json(const std::vector<SlowRank>& slow) {
  auto list = nlohmann::ordered_json::array();
  for (const SlowRank& rank : slow)
    list.push_back({{"rank", rank.rank}, {"factor", rank.factor}, {"standard_errors", rank.certainty}});
  return nlohmann::ordered_json{{"slow_ranks", list}}.dump(2) + "\n";
}

}  // namespace plumbline
