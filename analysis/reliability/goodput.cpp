#include "analysis/reliability/goodput.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "analysis/reliability/effective_time.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kMostSimulatedFailures = 1e9;  // half a minute or so
constexpr double kWorthSaying = 5e-5;           // of the effective share

JobFailures failures_of(const GoodputRequest& request) {
  return job_failures(request.fleet, request.gpus, request.recovery, request.checkpoint);
}

SavePlan chosen_saves(const GoodputRequest& request, const JobFailures& failures) {
  return saves_of(request.checkpoint, request.interval.value_or(best_interval(failures, request.checkpoint)));
}

ElasticPlan elastic_of(const GoodputRequest& request) {
  return elastic_plan(request.recovery, request.checkpoint, *request.recovery.elastic_groups, request.drop,
                      request.rejoin, request.step);
}

double share_of(const GoodputRequest& request, const JobFailures& failures, const SavePlan& saves) {
  return request.recovery.elastic_groups ? elastic_share(failures, saves, elastic_of(request))
                                         : effective_share(failures, saves);
}

std::vector<IntervalRule> interval_rules(const GoodputRequest& request, const JobFailures& failures) {
  const Seconds stall = saves_of(request.checkpoint, {}).stall;
  std::vector<std::pair<const char*, Seconds>> rules = {
      {"best", best_interval(failures, request.checkpoint)},
      {"Young", young_interval(stall, failures.between)},
      {"Daly", daly_interval(stall, failures.between)},
      {"Daly, higher order", daly_higher_order_interval(stall, failures.between)}};
  if (request.interval) rules.insert(rules.begin(), {"chosen", *request.interval});
  std::vector<IntervalRule> list;
  list.reserve(rules.size());
  for (const auto& [name, interval] : rules) {
    list.push_back({name, interval, share_of(request, failures, saves_of(request.checkpoint, interval))});
  }
  return list;
}

/// A fleet whose every cause is this many times as likely.
Fleet scaled(Fleet fleet, double factor) {
  for (FailureCause& cause : fleet.causes) cause.per_node_day *= factor;
  return fleet;
}

std::vector<GoodputChange> single_changes(const GoodputRequest& request) {
  const std::vector<std::pair<std::string, GoodputRequest>> changed = changed_requests(request);
  std::vector<GoodputChange> list;
  list.reserve(changed.size());
  const double now = expected_effective(request);
  for (const auto& [what, each] : changed) {
    const double effective = expected_effective(each);
    if (std::abs(effective - now) >= kWorthSaying) list.push_back({what, effective});
  }
  return list;
}

/// Energy and money of the horizon, as far as prices are known.
void price(const GoodputRequest& request, GoodputReport& report) {
  const double hours = request.trials.horizon.value / 3600;
  const int spares = request.trials.spares.nodes == SpareNodes::kAlways ? 0 : request.trials.spares.nodes;
  const double gpus = request.gpus + static_cast<double>(spares) * request.fleet.gpus_per_node;
  report.gpu_hours = gpus * hours;
  const GoodputPrices& prices = request.prices;
  if (prices.watts_per_gpu) report.kwh = report.gpu_hours * *prices.watts_per_gpu / 1000;
  if (prices.gpu_hour) report.cost = report.gpu_hours * *prices.gpu_hour;
  if (prices.kwh && report.kwh) report.cost = report.cost.value_or(0) + *report.kwh * *prices.kwh;
  const double tokens = report.tokens_per_day * request.trials.horizon.value / 86400;
  if (report.cost && tokens > 0) report.cost_per_million = *report.cost / tokens * 1e6;
}

/// A trial's share and a step's error, drawn together.
void set_intervals(const GoodputRequest& request, GoodputReport& report) {
  if (report.simulated.effective.empty() || report.simulated.mean.effective <= 0) return;
  const auto tokens = [&](const Draw& draw) {
    const double ratio = request.step_ratio ? request.step_ratio(draw.step) : 1;
    return report.tokens_per_day * report.simulated.percentile(draw.failures) /
           report.simulated.mean.effective / ratio;
  };
  report.tokens_per_day_interval = drawn_interval(tokens);
  if (!report.cost_per_million) return;
  report.cost_per_million_interval = drawn_interval(
      [&](const Draw& draw) { return *report.cost_per_million * report.tokens_per_day / tokens(draw); });
}

void check(const GoodputRequest& request, const JobFailures& failures, const SavePlan& saves) {
  const double all = static_cast<double>(request.trials.trials) * (request.trials.horizon / failures.between);
  if (all > kMostSimulatedFailures) {
    throw InputError(fmt::format(
        "goodput: --trials {}: found {:.3g} failures in all trials, expected at most {:g}; take fewer "
        "trials or days",
        request.trials.trials, all, kMostSimulatedFailures));
  }
  if (saves.interval + saves.stall < saves.durable) {
    throw InputError(fmt::format(
        "goodput: --checkpoint-interval {:g}: a checkpoint takes {:.4g} s to write, expected an interval "
        "that is not shorter: only one is written at a time",
        saves.interval.value, saves.durable.value));
  }
}

}  // namespace

std::vector<std::pair<std::string, GoodputRequest>> changed_requests(const GoodputRequest& request) {
  std::vector<std::pair<std::string, GoodputRequest>> changed;
  changed.reserve(8);
  const auto change = [&](const std::string& what) -> GoodputRequest& {
    return changed.emplace_back(what, request).second;
  };
  for (const double factor : {0.5, 2.0}) {
    GoodputRequest& request_of = change(factor < 1 ? "half as many failures" : "twice as many failures");
    request_of.fleet = scaled(request.fleet, factor);
  }
  GoodputRequest& detect = change("detection in half the time");
  detect.recovery.detect = detect.recovery.detect / 2;
  for (FailureCause& cause : detect.fleet.causes) cause.detect = cause.detect / 2;
  GoodputRequest& restart = change("restart in half the time");
  restart.recovery.restart = restart.recovery.restart / 2;
  if (restart.recovery.hot_swap) restart.recovery.hot_swap = *restart.recovery.hot_swap / 2;
  GoodputRequest& bandwidth = change("checkpoints written and read twice as fast");
  bandwidth.checkpoint.write = bandwidth.checkpoint.write * 2;
  bandwidth.checkpoint.read = bandwidth.checkpoint.read * 2;
  if (!request.checkpoint.stall) change("saves alongside the training").checkpoint.stall = Seconds{0.5};
  if (request.interval) change("the best interval").interval.reset();
  if (request.recovery.elastic_groups) {
    if (request.recovery.elastic_restarts)
      change("groups that leave without a restart").recovery.elastic_restarts = false;
    change("no elastic groups").recovery.elastic_groups.reset();
  }
  return changed;
}

double expected_effective(const GoodputRequest& request) {
  const JobFailures failures = failures_of(request);
  return share_of(request, failures, chosen_saves(request, failures));
}

GoodputReport plan_goodput(const GoodputRequest& request) {
  const JobFailures failures = failures_of(request);
  GoodputReport report;
  report.between = failures.between;
  report.recovery = failures.mean_recovery();
  report.save = request.checkpoint.size / request.checkpoint.write;
  report.makes_progress = request.recovery.elastic_groups ? elastic_of(request).drop < failures.between
                                                          : makes_progress(failures);
  report.saves = chosen_saves(request, failures);
  check(request, failures, report.saves);
  report.expected = share_of(request, failures, report.saves);
  report.first_order = first_order_share(failures, report.saves);
  report.intervals = interval_rules(request, failures);
  report.changes = single_changes(request);
  report.simulated = request.recovery.elastic_groups
                         ? simulate_elastic(failures, report.saves, elastic_of(request), request.trials)
                         : simulate_goodput(failures, report.saves, request.trials);
  if (request.trials.spares.repair.value > 0) {
    report.nodes_in_repair = mean_nodes_in_repair(failures, request.trials.spares.repair);
    report.spares_for_99 = poisson_quantile(*report.nodes_in_repair, 0.01);
  }
  report.tokens_per_day =
      report.simulated.mean.effective * request.tokens_per_step * 86400 / request.step.value;
  price(request, report);
  set_intervals(request, report);
  return report;
}

}  // namespace plumbline
