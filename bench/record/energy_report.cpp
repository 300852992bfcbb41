#include "bench/record/energy_report.hpp"

#include <cmath>
#include <map>
#include <utility>

namespace plumbline {
namespace {

/// Sum over places (hosts, GPUs) of the mean of those that read there.
double power_of_places(const std::vector<RankPower>& ranks, std::uint64_t RankPower::*place,
                       double RankPower::*watt) {
  std::map<std::uint64_t, std::pair<double, int>> places;
  for (const RankPower& rank : ranks) {
    auto& [sum, count] = places[rank.*place];
    sum += rank.*watt;
    ++count;
  }
  double all = ranks.empty() ? EnergyReport::kUnknown : 0;
  for (const auto& [number, read] : places) all += read.first / read.second;
  return all;
}

}  // namespace

EnergyReport energy_of(const std::vector<RankPower>& ranks, double step_s, double tokens) {
  EnergyReport report;
  report.processors_watt = power_of_places(ranks, &RankPower::host, &RankPower::processors_watt);
  report.gpus_watt = power_of_places(ranks, &RankPower::device, &RankPower::gpu_watt);
  double watt = 0;
  for (const double part : {report.processors_watt, report.gpus_watt})
    if (!std::isnan(part)) watt += part;
  if (watt > 0) report.step_joule = watt * step_s;
  if (tokens > 0) report.token_joule = report.step_joule / tokens;
  return report;
}

}  // namespace plumbline
