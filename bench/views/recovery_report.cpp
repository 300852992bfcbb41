#include "bench/views/recovery_report.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "bench/text/figures.hpp"

namespace plumbline {

std::string recovery_text(const RecoveryReport& report) {
  std::string text = fmt::format("{} steps in {} with {} failures, one every {} asked for\n", report.steps,
                                 readable_time(report.total.value), report.failures.size(),
                                 readable_time(report.mtbf.value));
  const std::array<std::pair<const char*, Seconds>, 5> parts = {{{"useful", report.useful},
                                                                 {"checkpoints", report.stalls},
                                                                 {"lost work", report.lost},
                                                                 {"detection", report.detect},
                                                                 {"restart", report.restart}}};
  for (const auto& [name, time] : parts) {
    text += fmt::format("  {:<12} {:>10}  {:6.2f} %\n", name, readable_time(time.value),
                        report.total.value > 0 ? 100 * (time / report.total) : 0.0);
  }
  text += fmt::format(
      "goodput        measured {:.2f} %, predicted {:.2f} % (with the failures that came: {:.2f} %)\n",
      100 * report.goodput, 100 * report.predicted, 100 * report.predicted_observed);
  text += fmt::format("  from a step of {}, a checkpoint that holds it up {} and is durable after {}\n",
                      readable_time(report.step.value), readable_time(report.stall.value),
                      readable_time(report.durable.value));
  if (report.failures.empty()) return text;
  text += "      at  kind  rank  detected after  restarted after  lost work  steps\n";
  for (const FailureReport& failure : report.failures) {
    text += fmt::format("{:>8}  {:<4}  {:>4}  {:>14}  {:>15}  {:>9}  {:>5}\n",
                        readable_time(failure.at.value), failure.kind, failure.rank,
                        readable_time(failure.detect.value), readable_time(failure.restart.value),
                        readable_time(failure.lost.value), failure.lost_steps);
  }
  return text;
}

}  // namespace plumbline
