#include "bench/show/views/cluster/goodput_report.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/show/text/figures.hpp"
#include "bench/show/views/cluster/cluster_page.hpp"
#include "bench/show/views/cluster/goodput_plot.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

std::string share_text(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

/// "23.2 min": from seconds to days, which readable_time does not go to.
std::string long_time(Seconds time) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {{{86400, "d"}, {3600, "h"}, {60, "min"}}};
  for (const auto& [seconds, name] : kUnits) {
    if (time.value >= 2 * seconds) return fmt::format("{:.1f} {}", time.value / seconds, name);
  }
  return readable_time(time.value);
}

using NamedShares = std::array<std::pair<const char*, double>, 6>;
NamedShares shares_of(const TimeShares& mean) {
  return {{{"effective", mean.effective},
           {"recomputed", mean.recomputed},
           {"saving", mean.saving},
           {"recovering", mean.recovering},
           {"waiting", mean.waiting},
           {"missing", mean.missing}}};
}

/// Meaning of each part of the time, in the order of shares_of.
constexpr std::array<const char*, 6> kMeanings = {
    "work that is kept",     "work lost by failures",        "checkpoint stall",
    "detection and restart", "waiting for a node in repair", "replicas out of service"};

/// "87.3 B": no exponents.
std::string tokens_text(double tokens) {
  return fmt::format("{} B", readable_number(tokens / 1e9));
}

std::string header_text(const GoodputRequest& request, const GoodputReport& report) {
  std::string text =
      fmt::format("{} GPUs ({:g} nodes), failure rates of {}: MTBF {}, {:.4g} failures per day\n",
                  request.gpus, request.fleet.nodes(request.gpus), request.fleet.name,
                  long_time(report.between), 86400 / report.between.value);
  const char* how = request.checkpoint.stall ? "asynchronous" : "blocking";
  text += fmt::format("checkpoint {}, written in {} ({}), interval {}\n",
                      readable_bytes(static_cast<double>(request.checkpoint.size.value)),
                      long_time(report.save), how, long_time(report.saves.interval));
  if (request.recovery.elastic_groups) {
    const bool restarts = request.recovery.elastic_restarts;
    const Seconds pause = restarts ? report.recovery : request.recovery.detect + request.drop;
    text += fmt::format("a failure removes one of {} groups; the others continue after {}{}\n",
                        *request.recovery.elastic_groups, long_time(pause),
                        restarts ? " from the last checkpoint" : "");
  } else {
    text += fmt::format("recovery from a failure to the next step: {}\n", long_time(report.recovery));
  }
  if (!report.makes_progress) {
    text += fmt::format(
        "no progress: recovery ({}) takes longer than the MTBF ({}); figures below come from rare long gaps "
        "between failures\n",
        long_time(report.recovery), long_time(report.between));
  }
  return text;
}

std::string money_text(const GoodputRequest& request, const GoodputReport& report) {
  const double days = request.trials.horizon.value / 86400;
  std::string text =
      fmt::format("\ntokens per day {} (5th percentile of trials {})\n", tokens_text(report.tokens_per_day),
                  tokens_text(report.tokens_per_day / report.simulated.mean.effective *
                              report.simulated.percentile(0.05)));
  if (const auto& range = report.tokens_per_day_interval)
    text += fmt::format("  80 % interval {} to {}{}\n", tokens_text(range->low), tokens_text(range->high),
                        request.step_ratio ? ", over trials and steps of comparable runs" : ", over trials");
  text += fmt::format("GPU-hours in {:g} days {}\n", days, grouped_digits(report.gpu_hours));
  if (report.kwh) text += fmt::format("energy {} kWh\n", grouped_digits(*report.kwh));
  if (report.cost)
    text += fmt::format("cost {}, {:.4g} per million tokens{}\n", grouped_digits(*report.cost),
                        report.cost_per_million.value_or(0),
                        report.cost_per_million_interval ? fmt::format(" (80 % interval {:.4g} to {:.4g})",
                                                                       report.cost_per_million_interval->low,
                                                                       report.cost_per_million_interval->high)
                                                         : "");
  return text;
}

}  // namespace

std::string goodput_text(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory) {
  const Goodput& simulated = report.simulated;
  std::string text = header_text(request, report);
  if (memory) text += fmt::format("memory: {}\n", memory->text());
  text += fmt::format(
      "\neffective time   expected  simulated        5 %       50 %       95 %\n"
      "               {:>10} {:>10} {:>10} {:>10} {:>10}\n",
      share_text(report.expected), share_text(simulated.mean.effective),
      share_text(simulated.percentile(0.05)), share_text(simulated.percentile(0.5)),
      share_text(simulated.percentile(0.95)));
  text += fmt::format("\nwall time breakdown, mean of {} trials of {:g} days with {:.1f} failures each\n",
                      request.trials.trials, request.trials.horizon.value / 86400, simulated.failures);
  const NamedShares shares = shares_of(simulated.mean);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].second > 0)
      text +=
          fmt::format("  {:<12} {:>9}  {}\n", shares[i].first, share_text(shares[i].second), kMeanings[i]);
  }
  text += "\ncheckpoint interval              expected\n";
  for (const IntervalRule& rule : report.intervals) {
    text += fmt::format("  {:<20} {:>9} {:>9}\n", rule.name, long_time(rule.interval),
                        share_text(rule.effective));
  }
  text += fmt::format("  first-order E[ETTR] (arXiv:2410.21680): {}\n", share_text(report.first_order));
  text += "\nsingle change                                   expected\n";
  for (const GoodputChange& change : report.changes) {
    text += fmt::format("  {:<44} {:>9}\n", change.what, share_text(change.effective));
  }
  if (report.nodes_in_repair) {
    text += fmt::format("\nnodes in repair: mean {:.1f}, 99th percentile {}\n", *report.nodes_in_repair,
                        report.spares_for_99);
  }
  return text + money_text(request, report);
}

std::string goodput_json(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory) {
  const Goodput& simulated = report.simulated;
  nlohmann::ordered_json json;
  json["gpus"] = request.gpus;
  json["nodes"] = request.fleet.nodes(request.gpus);
  json["fleet"] = request.fleet.name;
  json["fleet_source"] = request.fleet.source;
  json["step_s"] = request.step.value;
  if (memory) json["verdict"] = name_of(memory->word);
  if (memory && memory->chance) json["chance"] = *memory->chance;
  json["tokens_per_step"] = request.tokens_per_step;
  json["between_failures_s"] = report.between.value;
  json["recovery_s"] = report.recovery.value;
  json["makes_progress"] = report.makes_progress;
  json["checkpoint"] = {{"bytes", request.checkpoint.size.value},
                        {"write_s", report.save.value},
                        {"interval_s", report.saves.interval.value},
                        {"stall_s", report.saves.stall.value},
                        {"blocking", !request.checkpoint.stall.has_value()}};
  json["elastic_groups"] =
      request.recovery.elastic_groups ? nlohmann::ordered_json(*request.recovery.elastic_groups) : nullptr;
  json["trials"] = request.trials.trials;
  json["days"] = request.trials.horizon.value / 86400;
  json["seed"] = request.trials.seed;
  json["effective"] = {
      {"expected", report.expected},           {"first_order", report.first_order},
      {"simulated", simulated.mean.effective}, {"standard_error", simulated.standard_error()},
      {"p5", simulated.percentile(0.05)},      {"p50", simulated.percentile(0.5)},
      {"p95", simulated.percentile(0.95)}};
  json["failures"] = simulated.failures;
  for (const auto& [name, share] : shares_of(simulated.mean)) json["time"][name] = share;
  json["intervals"] = nlohmann::ordered_json::array();
  for (const IntervalRule& rule : report.intervals) {
    json["intervals"].push_back(
        {{"rule", rule.name}, {"interval_s", rule.interval.value}, {"effective", rule.effective}});
  }
  json["changes"] = nlohmann::ordered_json::array();
  for (const GoodputChange& change : report.changes) {
    json["changes"].push_back({{"change", change.what}, {"effective", change.effective}});
  }
  if (report.nodes_in_repair) {
    json["nodes_in_repair"] = *report.nodes_in_repair;
    json["spares_for_99_percent"] = report.spares_for_99;
  }
  json["tokens_per_day"] = report.tokens_per_day;
  json["gpu_hours"] = report.gpu_hours;
  if (report.kwh) json["kwh"] = *report.kwh;
  if (report.cost) json["cost"] = *report.cost;
  if (report.cost_per_million) json["cost_per_million_tokens"] = *report.cost_per_million;
  const auto interval = [&](const char* key, const std::optional<Interval>& range) {
    if (range) json[key] = {{"low", range->low}, {"high", range->high}};
  };
  interval("tokens_per_day_interval", report.tokens_per_day_interval);
  interval("cost_per_million_tokens_interval", report.cost_per_million_interval);
  return output_json(json, 2) + "\n";
}

std::string goodput_page(const GoodputRequest& request, const GoodputReport& report,
                         const std::optional<MemoryVerdict>& memory) {
  const Goodput& simulated = report.simulated;
  PlotCurve trials{"effective time of trials, %", {}};
  trials.points.reserve(101);
  for (int percent = 0; percent <= 100; ++percent)
    trials.points.emplace_back(percent, 100 * simulated.percentile(percent / 100.0));
  PagePart time{"Wall time breakdown",
                fmt::format("Mean of {} trials of {:g} days with {:.1f} failures each.",
                            request.trials.trials, request.trials.horizon.value / 86400, simulated.failures),
                {{"", "share", "meaning"}, {}},
                ""};
  const NamedShares shares = shares_of(simulated.mean);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].second > 0)
      time.table.rows.push_back({shares[i].first, share_text(shares[i].second), kMeanings[i]});
  }
  PagePart intervals{
      "Checkpoint interval", "", {{"rule", "interval", "expected"}, {}}, goodput_svg(request, report)};
  for (const IntervalRule& rule : report.intervals)
    intervals.table.rows.push_back({rule.name, long_time(rule.interval), share_text(rule.effective)});
  PagePart changes{"Single changes", "", {{"change", "expected"}, {}}, ""};
  for (const GoodputChange& change : report.changes)
    changes.table.rows.push_back({change.what, share_text(change.effective)});
  const PagePart effective{"Effective time",
                           header_text(request, report),
                           {{"", "expected", "simulated", "5 %", "50 %", "95 %"},
                            {{"effective", share_text(report.expected), share_text(simulated.mean.effective),
                              share_text(simulated.percentile(0.05)), share_text(simulated.percentile(0.5)),
                              share_text(simulated.percentile(0.95))}}},
                           percentile_svg("Effective time by percentile of trials", "%", {trials})};
  const PagePart money{"Tokens, GPU-hours, cost", money_text(request, report), {}, ""};
  return cluster_page(
      fmt::format("Goodput of {} GPUs", request.gpus),
      fmt::format("failure rates of {}, MTBF {}{}", request.fleet.name, long_time(report.between),
                  memory ? fmt::format("; memory: {}", memory->text()) : ""),
      {effective, time, intervals, changes, money});
}

std::string published_checks_text(const std::vector<PublishedCheck>& checks) {
  std::string text = fmt::format("{:<58} {:>9} {:>9}  {}\n", "published", "printed", "computed", "");
  for (const PublishedCheck& check : checks) {
    std::string verdict = check.within ? "within rounding" : "outside rounding";
    if (check.measured)
      verdict = check.within ? "measured, agrees with the formula" : "measured, disagrees with the formula";
    if (!check.computed) verdict = "not computed: " + check.why;
    text += fmt::format("{:<58} {:>9} {:>9}  {}\n", check.quantity,
                        fmt::format("{:g} {}", check.printed, check.unit),
                        check.computed ? fmt::format("{:.4g}", *check.computed) : "-", verdict);
  }
  return text;
}

std::string published_checks_json(const std::vector<PublishedCheck>& checks) {
  auto list = nlohmann::ordered_json::array();
  for (const PublishedCheck& check : checks) {
    nlohmann::ordered_json json = {{"quantity", check.quantity},
                                   {"unit", check.unit},
                                   {"source", check.source},
                                   {"printed", check.printed},
                                   {"computed", nullptr}};
    if (check.computed) {
      json["computed"] = *check.computed;
      json["within_rounding"] = check.within;
      json["measured"] = check.measured;
    } else {
      json["why_not"] = check.why;
    }
    list.push_back(std::move(json));
  }
  return output_json(nlohmann::ordered_json{{"checks", list}}, 2) + "\n";
}

}  // namespace plumbline
