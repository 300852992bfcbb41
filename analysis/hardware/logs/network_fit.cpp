#include "analysis/hardware/logs/network_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kSmall = 8192;    // bytes: latency
constexpr double kLargest = 8;     // sizes from an eighth of the largest on: bandwidth
constexpr double kLarge = 0x1p20;  // bytes at least
constexpr int kHalvings = 80;

bool is_message(LogOperation operation) {
  return operation == LogOperation::message || operation == LogOperation::ring ||
         operation == LogOperation::stream;
}

/// Ranks of a sweep on one node of the network. Hosts that are known to share a fast link are one.
int ranks_on_node(const Network& network, const LogSweep& sweep) {
  const int host = network.gpus_per_host > 0 ? network.gpus_per_host : network.gpus_per_node;
  const int hosts_of_node = std::max(network.gpus_per_node / std::max(host, 1), 1);
  if (sweep.nodes <= hosts_of_node) return sweep.ranks;
  return std::min(sweep.ranks / sweep.nodes * hosts_of_node, sweep.ranks);
}

bool within_node(const Network& network, const LogSweep& sweep) {
  return ranks_on_node(network, sweep) >= sweep.ranks;
}

/// The value in [least, most] at which a monotone `excess` changes sign, or the nearer end.
double root_of(double least, double most, const std::function<double(double)>& excess) {
  const bool rises = excess(most) > excess(least);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(least * most);
    ((excess(middle) > 0) == rises ? most : least) = middle;
  }
  return std::sqrt(least * most);
}

std::vector<LogPoint> large_points(const LogSweep& sweep) {
  std::vector<LogPoint> points;
  if (sweep.points.empty()) return points;
  const double from = std::max(kLarge, sweep.points.back().bytes / kLargest);
  std::copy_if(sweep.points.begin(), sweep.points.end(), std::back_inserter(points),
               [&](const LogPoint& point) { return point.bytes >= from; });
  return points;
}

std::optional<double> latency_of(const LogSweep& sweep) {
  std::optional<double> least;
  for (const LogPoint& point : sweep.points) {
    if (point.bytes <= kSmall) least = std::min(least.value_or(point.seconds), point.seconds);
  }
  return sweep.operation == LogOperation::stream ? std::nullopt : least;
}

std::optional<double> bus_bandwidth_of(const LogSweep& sweep) {
  std::vector<double> rates;
  for (const LogPoint& point : large_points(sweep)) {
    rates.push_back(point.bytes / point.seconds * bus_factor_of(sweep.operation, sweep.ranks));
  }
  return rates.empty() ? std::nullopt : std::optional(median(rates));
}

std::optional<double> error_of(const Network& network, const LogSweep& sweep) {
  std::vector<double> errors;
  for (const LogPoint& point : sweep.points) {
    if (point.bytes < kLarge) continue;
    errors.push_back(std::abs(model_seconds(network, sweep, point.bytes) / point.seconds - 1));
  }
  return errors.empty() ? std::nullopt : std::optional(median(errors));
}

std::string source_of(const std::vector<const LogSweep*>& sweeps) {
  std::string text;
  for (const LogSweep* sweep : sweeps) {
    text += fmt::format("{}{} {}, {} ranks on {} host{}", text.empty() ? "" : "; ", sweep->tool,
                        name_of(sweep->operation), sweep->ranks, sweep->nodes, sweep->nodes == 1 ? "" : "s");
  }
  return text;
}

/// Determines constants one after another; later ones use earlier ones.
class Fitter {
 public:
  Fitter(const Network& network, const std::vector<LogSweep>& sweeps) : sweeps_(sweeps) {
    fit_.network = network;
  }

  NetworkFit fit() {
    for (const bool inside : {true, false}) {
      const auto collective = [](LogOperation operation) { return !is_message(operation); };
      const auto message = [](LogOperation operation) {
        return operation == LogOperation::message || operation == LogOperation::ring;
      };
      if (!fit_latency(chosen(inside, collective), inside, true))
        (void)fit_latency(chosen(inside, message), inside, false);
    }
    fit_inside();
    fit_outside();
    return std::move(fit_);
  }

 private:
  using Chosen = std::vector<const LogSweep*>;
  Network& network() { return fit_.network; }

  Chosen chosen(bool inside, const std::function<bool(LogOperation)>& wanted) const {
    Chosen found;
    for (const LogSweep& sweep : sweeps_) {
      if (within_node(fit_.network, sweep) == inside && wanted(sweep.operation)) found.push_back(&sweep);
    }
    return found;
  }
  Chosen of(bool inside, std::initializer_list<LogOperation> operations) const {
    return chosen(inside, [&](LogOperation operation) {
      return std::find(operations.begin(), operations.end(), operation) != operations.end();
    });
  }

  void note(const char* name, double value, const Chosen& sweeps) {
    fit_.constants.push_back({name, value, source_of(sweeps)});
  }

  /// Base and step in the ratio that they have.
  bool fit_latency(const Chosen& sweeps, bool inside, bool steps) {
    double& base = inside ? network().node_base_s : network().nic_base_s;
    double& step = inside ? network().node_step_s : network().nic_step_s;
    const double base_before = base;
    const double step_before = step;
    std::vector<double> scales;
    Chosen used;
    for (const LogSweep* sweep : sweeps) {
      const auto latency = latency_of(*sweep);
      if (!latency) continue;
      used.push_back(sweep);
      scales.push_back(root_of(1e-4, 1e4, [&](double scale) {
        Network changed = network();
        (inside ? changed.node_base_s : changed.nic_base_s) = base_before * scale;
        (inside ? changed.node_step_s : changed.nic_step_s) = step_before * scale;
        return model_seconds(changed, *sweep, sweep->points.front().bytes) - *latency;
      }));
    }
    if (used.empty()) return false;
    const double scale = median(scales);
    base = base_before * scale;
    note(inside ? "node_base_s" : "nic_base_s", base, used);
    if (!steps) return true;
    step = step_before * scale;
    note(inside ? "node_step_s" : "nic_step_s", step, used);
    return true;
  }

  /// Median over the large sizes of all sweeps. False when there are none.
  bool fit_rate(const Chosen& sweeps, const char* name, double Network::*member, double least = 1e6,
                double most = 1e14) {
    std::vector<double> rates;
    for (const LogSweep* sweep : sweeps) {
      for (const LogPoint& point : large_points(*sweep)) {
        rates.push_back(root_of(least, most, [&](double rate) {
          Network changed = network();
          changed.*member = rate;
          return model_seconds(changed, *sweep, point.bytes) - point.seconds;
        }));
      }
    }
    if (rates.empty()) return false;
    network().*member = median(rates);
    note(name, network().*member, sweeps);
    return true;
  }

  void fit_inside() {
    const Chosen reduces = of(true, {LogOperation::all_reduce});
    const Chosen passes = of(true, {LogOperation::all_gather, LogOperation::reduce_scatter,
                                    LogOperation::broadcast, LogOperation::reduce});
    if (fit_rate(passes, "node_bandwidth", &Network::node_bandwidth)) {
      const bool beyond_pair =
          std::any_of(reduces.begin(), reduces.end(), [](const LogSweep* sweep) { return sweep->ranks > 2; });
      if (beyond_pair) fit_rate(reduces, "switch_reduction", &Network::switch_reduction, 1, 4);
    } else {
      fit_rate(reduces, "node_bandwidth", &Network::node_bandwidth);
    }
    fit_rate(of(true, {LogOperation::all_to_all}), "exchange_bandwidth", &Network::exchange_bandwidth);
    const Chosen streams = of(true, {LogOperation::stream});
    if (!fit_rate(of(true, {LogOperation::message, LogOperation::ring}), "message_bandwidth",
                  &Network::message_bandwidth))
      fit_rate(streams, "message_bandwidth", &Network::message_bandwidth);
  }

  void fit_outside() {
    const Chosen rings =
        of(false, {LogOperation::all_reduce, LogOperation::all_gather, LogOperation::reduce_scatter,
                   LogOperation::broadcast, LogOperation::reduce});
    raise_fast_link(rings);
    for (const Chosen& sweeps :
         {rings, of(false, {LogOperation::all_to_all}),
          of(false, {LogOperation::message, LogOperation::ring}), of(false, {LogOperation::stream})}) {
      if (fit_rate(sweeps, "nic_bandwidth", &Network::nic_bandwidth)) return;
    }
  }

  /// A ring between nodes is no faster than the link within them: where it was, that link is as fast.
  void raise_fast_link(const Chosen& rings) {
    const bool known = std::any_of(fit_.constants.begin(), fit_.constants.end(),
                                   [](const FittedConstant& each) { return each.name == "node_bandwidth"; });
    double most = 0;
    for (const LogSweep* sweep : rings) most = std::max(most, bus_bandwidth_of(*sweep).value_or(0));
    if (known || most <= network().node_bandwidth) return;
    network().node_bandwidth = most;
    note("node_bandwidth", most, rings);
  }

  const std::vector<LogSweep>& sweeps_;
  NetworkFit fit_;
};

/// Sweeps out of place, and others where there is none such.
std::vector<LogSweep> one_of_each_place(const std::vector<LogSweep>& sweeps) {
  std::vector<LogSweep> kept;
  for (const LogSweep& sweep : sweeps) {
    const bool apart = std::any_of(sweeps.begin(), sweeps.end(), [&](const LogSweep& other) {
      return !other.in_place && other.operation == sweep.operation && other.ranks == sweep.ranks &&
             other.nodes == sweep.nodes;
    });
    if (!sweep.in_place || !apart) kept.push_back(sweep);
  }
  return kept;
}

Curve curve_of(const LogSweep& sweep) {
  Curve curve;
  for (const LogPoint& point : sweep.points) {
    if (!curve.sizes.empty() && point.bytes <= curve.sizes.back()) continue;
    curve.sizes.push_back(point.bytes);
    curve.seconds.push_back(point.seconds);
  }
  return curve;
}

}  // namespace

double model_seconds(const Network& network, const LogSweep& sweep, double bytes) {
  const int local = ranks_on_node(network, sweep);
  const bool leaves = local < sweep.ranks;
  const Span span{sweep.ranks, leaves ? std::max(network.gpus_per_node / std::max(local, 1), 1) : 1};
  Network near = network;
  if (!leaves) near.gpus_per_node = std::max(near.gpus_per_node, sweep.ranks);
  const double n = sweep.ranks;
  switch (sweep.operation) {
    case LogOperation::all_reduce:
      return all_reduce_seconds(near, span, bytes);
    case LogOperation::all_gather:
    case LogOperation::reduce_scatter:
      return scatter_seconds(near, span, bytes);
    case LogOperation::broadcast:
    case LogOperation::reduce:
      return scatter_seconds(near, span, bytes * n / (n - 1));
    case LogOperation::all_to_all:
      return all_to_all_seconds(near, span, bytes);
    case LogOperation::stream:
      return bytes / (leaves ? near.nic_bandwidth : near.message_bandwidth);
    case LogOperation::message:
    case LogOperation::ring:
    case LogOperation::unknown:
      break;
  }
  return hop_seconds(near, leaves, bytes);
}

NetworkFit fit_network(const Network& network, const std::vector<LogSweep>& sweeps) {
  const std::vector<LogSweep> used = one_of_each_place(sweeps);
  NetworkFit fit = Fitter(network, used).fit();
  for (const LogSweep& sweep : used) {
    fit.sweeps.push_back({sweep, latency_of(sweep), bus_bandwidth_of(sweep), error_of(network, sweep),
                          error_of(fit.network, sweep)});
  }
  return fit;
}

std::string accelerator_file_of(const NetworkFit& fit, const std::string& name, const std::string& like) {
  OrderedJson file = {{"name", name}, {"like", like}};
  for (const FittedConstant& constant : fit.constants) {
    file["constants"][constant.name] = {{"value", constant.value}, {"source", constant.source}};
  }
  return output_json(file, 1) + "\n";
}

HardwareProfile with_measured_messages(HardwareProfile profile, const std::vector<LogSweep>& sweeps) {
  std::vector<CollectiveTime> collectives;
  std::vector<MessageTime> messages;
  constexpr std::array<std::pair<LogOperation, CollectiveKind>, 3> kKinds = {
      {{LogOperation::all_reduce, CollectiveKind::all_reduce},
       {LogOperation::all_gather, CollectiveKind::all_gather},
       {LogOperation::reduce_scatter, CollectiveKind::reduce_scatter}}};
  for (const LogSweep& sweep : one_of_each_place(sweeps)) {
    if (sweep.operation == LogOperation::message || sweep.operation == LogOperation::ring) {
      messages.push_back({sweep.ranks, curve_of(sweep)});
      continue;
    }
    for (const auto& [operation, kind] : kKinds) {
      if (operation != sweep.operation) continue;
      for (const DType type : {DType::fp32, DType::bf16}) {
        for (const bool started : {false, true})
          collectives.push_back({sweep.ranks, sweep.ranks, type, started, curve_of(sweep), kind});
      }
    }
  }
  if (collectives.empty() && messages.empty()) {
    throw InputError(
        "import-bench: found no all-reduce, all-gather, reduce-scatter or latency, expected one for a "
        "calibrated profile; add such a log");
  }
  if (!collectives.empty()) profile.collectives = std::move(collectives);
  if (!messages.empty()) profile.messages = std::move(messages);
  return profile;
}

}  // namespace plumbline
