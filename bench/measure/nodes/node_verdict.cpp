#include "bench/measure/nodes/node_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

/// Best bandwidth of a rank's messages with other hosts; 0: there were none.
double best_bandwidth(const NodeReport& report, const std::vector<NodeReport>& all) {
  double best = 0;
  for (const PairReport& pair : report.pairs) {
    if (all.at(static_cast<std::size_t>(pair.rank)).host != report.host)
      best = std::max(best, pair.bandwidth);
  }
  return best;
}

void judge_messages(std::vector<NodeReport>& reports, double limit) {
  constexpr std::size_t kFewest = 3;  // of two hosts nobody knows which is slow
  std::set<std::string> hosts;
  std::vector<double> best;
  for (const NodeReport& report : reports) {
    hosts.insert(report.host);
    best.push_back(best_bandwidth(report, reports));
  }
  if (hosts.size() < kFewest) return;
  const double usual = lower_median(best);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (best[i] > 0 && best[i] < (1 - limit) * usual) {
      reports[i].reasons.push_back(
          fmt::format("messages: best pair {:.2f} GB/s, median rank {:.2f}", best[i] * 1e-9, usual * 1e-9));
    }
  }
}

void judge_health(std::vector<NodeReport>& reports, const NodeLimits& limits) {
  int most_links = -1;
  std::map<std::string, double> fastest;  // by port
  for (const NodeReport& report : reports) {
    most_links = std::max(most_links, report.health.nvlinks);
    for (const NicReport& nic : report.health.nics)
      fastest[nic.name] = std::max(fastest[nic.name], nic.active ? nic.gbit : 0);
  }
  for (NodeReport& report : reports) {
    const NodeHealth& health = report.health;
    const auto fail = [&](const std::string& reason) { report.reasons.push_back(reason); };
    if (health.celsius > limits.celsius) fail(fmt::format("temperature: {:.0f} C", health.celsius));
    if (health.uncorrected_errors > 0)
      fail(fmt::format("ECC: {} uncorrected errors", health.uncorrected_errors));
    if (health.pcie_width >= 0 && health.pcie_width < health.most_pcie_width)
      fail(fmt::format("PCIe: {} lanes of {}", health.pcie_width, health.most_pcie_width));
    if (health.nvlinks >= 0 && health.nvlinks < most_links)
      fail(fmt::format("NVLink: {} links, other GPUs {}", health.nvlinks, most_links));
    for (const std::string& reason : health.throttled) {
      if (reason.starts_with("hw_")) {
        fail("clocks: " + reason);
      } else {
        report.notes.push_back("clocks: " + reason);
      }
    }
    for (const NicReport& nic : health.nics) {
      const double most = fastest[nic.name];
      if (most <= 0) continue;  // in use nowhere
      if (!nic.active) {
        fail(fmt::format("{}: down", nic.name));
      } else if (nic.gbit > 0 && nic.gbit < most) {
        fail(fmt::format("{}: {:g} Gbit/s, other nodes {:g}", nic.name, nic.gbit, most));
      }
    }
    if (health.corrected_errors > 0)
      report.notes.push_back(fmt::format("ECC: {} corrected errors", health.corrected_errors));
  }
}

}  // namespace

std::vector<double> factors_of(const std::vector<double>& seconds) {
  const double usual = lower_median(seconds);
  std::vector<double> factors;
  factors.reserve(seconds.size());
  for (const double each : seconds) factors.push_back(usual > 0 ? each / usual : 1);
  return factors;
}

std::vector<double> host_factors_of(const std::vector<double>& seconds,
                                    const std::vector<std::size_t>& hosts) {
  std::map<std::size_t, double> shortest;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto [at, first] = shortest.try_emplace(hosts[i], seconds[i]);
    at->second = std::min(at->second, seconds[i]);
  }
  std::vector<double> of_hosts;
  of_hosts.reserve(shortest.size());
  for (const auto& [host, time] : shortest) of_hosts.push_back(time);
  const std::vector<double> factors = factors_of(of_hosts);
  std::vector<double> by_rank;
  by_rank.reserve(hosts.size());
  for (const std::size_t host : hosts) {
    by_rank.push_back(
        factors[static_cast<std::size_t>(std::distance(shortest.begin(), shortest.find(host)))]);
  }
  return by_rank;
}

bool any_slow(const std::vector<double>& products, const std::vector<double>& copies,
              const std::vector<std::size_t>& hosts, const NodeLimits& limits) {
  const auto beyond = [](const std::vector<double>& factors, double limit) {
    return std::any_of(factors.begin(), factors.end(), [&](double factor) { return factor > 1 + limit; });
  };
  return beyond(factors_of(products), limits.product) || beyond(host_factors_of(copies, hosts), limits.copy);
}

void judge(std::vector<NodeReport>& reports, const NodeLimits& limits) {
  std::vector<double> products, copies, clocks;
  std::vector<std::size_t> hosts;
  for (NodeReport& report : reports) {
    report.reasons.clear();
    report.notes.clear();
    products.push_back(report.product_s);
    copies.push_back(report.copy_s);
    clocks.push_back(report.clock);
    hosts.push_back(std::hash<std::string>{}(report.host));
  }
  const std::vector<double> product_factors = factors_of(products),
                            copy_factors = host_factors_of(copies, hosts);
  const double clock = upper_median(clocks);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    NodeReport& report = reports[i];
    report.product_factor = product_factors[i];
    report.copy_factor = copy_factors[i];
    if (report.product_factor > 1 + limits.product) {
      std::string reason = fmt::format("product: {:.2f} x the median rank", report.product_factor);
      if (report.clock > 0 && report.clock < (1 - limits.product) * clock)
        reason += fmt::format(", clock {:.0f} % of the others'", 100 * report.clock / clock);
      report.reasons.push_back(std::move(reason));
    }
    if (report.copy_factor > 1 + limits.copy)
      report.reasons.push_back(
          fmt::format("memory: a copy takes {:.2f} x the median host", report.copy_factor));
  }
  judge_messages(reports, limits.message);
  judge_health(reports, limits);
}

const NodeReport& slowest_rank(const std::vector<NodeReport>& reports) {
  return *std::max_element(reports.begin(), reports.end(), [](const NodeReport& a, const NodeReport& b) {
    return a.product_factor < b.product_factor;
  });
}

std::string passing_hostfile(const std::vector<NodeReport>& reports) {
  std::vector<std::string> hosts;
  std::map<std::string, int> slots;
  std::map<std::string, bool> passed;
  for (const NodeReport& report : reports) {
    if (slots[report.host]++ == 0) {
      hosts.push_back(report.host);
      passed[report.host] = true;
    }
    passed[report.host] = passed[report.host] && report.passed();
  }
  std::string text;
  for (const std::string& host : hosts) {
    if (passed[host]) text += fmt::format("{} slots={}\n", host, slots[host]);
  }
  return text;
}

}  // namespace plumbline
