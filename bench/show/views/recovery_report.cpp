#include "bench/show/views/recovery_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "bench/show/text/figures.hpp"

namespace plumbline {

std::string recovery_text(const RecoveryReport& report) {
  std::string text = fmt::format("{} steps in {} with {} failures; requested MTBF {}\n", report.steps,
                                 readable_time(report.total.value), count_failures(report),
                                 readable_time(report.mtbf.value));
  const std::array<std::pair<const char*, Seconds>, 7> parts = {{{"useful", report.useful},
                                                                 {"checkpoints", report.stalls},
                                                                 {"lost work", report.lost},
                                                                 {"detection", report.detect},
                                                                 {"restart", report.restart},
                                                                 {"waiting for ranks", report.waiting},
                                                                 {"missing replicas", report.missing}}};
  for (const auto& [name, time] : parts) {
    if (time.value == 0) continue;
    text += fmt::format("  {:<18} {:>10}  {:6.2f} %\n", name, readable_time(time.value),
                        report.total.value > 0 ? 100 * (time / report.total) : 0.0);
  }
  const PredictedGoodput& predicted = report.predicted;
  text += fmt::format("goodput        measured {:.2f} %, predicted for these failures {:.2f} %\n",
                      100 * report.goodput, 100 * predicted.of_seed);
  text += fmt::format("  predicted for random failures {:.2f} %, 90 % interval {:.2f} to {:.2f} %\n",
                      100 * predicted.mean, 100 * predicted.low, 100 * predicted.high);
  const std::array<std::tuple<const char*, Seconds, Seconds>, 6> costs = {
      {{"step", report.costs.step, predicted.from.step},
       {"checkpoint stall", report.costs.stall, predicted.from.stall},
       {"checkpoint until durable", report.costs.durable, predicted.from.durable},
       {"restart", report.costs.restart, predicted.from.restart},
       {"detection of a kill", report.costs.detect_kill, predicted.from.detect_kill},
       {"detection of a hang", report.costs.detect_hang, predicted.from.detect_hang}}};
  text += fmt::format("{:<28}  {:>10}  {:>14}\n", "cost per event", "measured", "predicted with");
  for (const auto& [name, measured, assumed] : costs) {
    text += fmt::format("  {:<26}  {:>10}  {:>14}\n", name, readable_time(measured.value),
                        readable_time(assumed.value));
  }
  for (const ReducedSteps& reduced : report.costs.reduced) {
    const auto& known = predicted.from.reduced;
    const auto found = std::find_if(known.begin(), known.end(), [&](const ReducedSteps& each) {
      return each.replicas == reduced.replicas;
    });
    text += fmt::format("  {:<26}  {:>10}  {:>14}\n", fmt::format("step with {} replicas", reduced.replicas),
                        readable_time(reduced.step.value),
                        found == known.end() ? "-" : readable_time(found->step.value));
  }
  if (report.failures.empty()) return text;
  text += "      at  kind    rank  detected after  restarted after  lost work  steps  replicas\n";
  for (const FailureReport& failure : report.failures) {
    text += fmt::format("{:>8}  {:<6}  {:>4}  {:>14}  {:>15}  {:>9}  {:>5}  {:>8}\n",
                        readable_time(failure.at.value), failure.kind, failure.rank,
                        readable_time(failure.detect.value),
                        readable_time((failure.waiting + failure.restart).value),
                        readable_time(failure.lost.value), failure.lost_steps, failure.replicas);
  }
  return text;
}

}  // namespace plumbline
