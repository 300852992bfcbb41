#include "bench/ask/simulation_json.hpp"

#include <cmath>
#include <string>

namespace plumbline {
namespace {

/// Overlap of each collective of vocabulary parallelism; empty for a schedule without.
nlohmann::ordered_json collectives_json(const VocabularyOverlap& overlap) {
  nlohmann::ordered_json json;
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const CollectiveOverlap& each = overlap[static_cast<std::size_t>(call)];
    auto& row = json[std::string(short_name(call))];
    row = {{"time_us", each.time.value * 1e6},
           {"exposed_us", each.exposed.value * 1e6},
           {"waited_us", each.waited.value * 1e6},
           {"overlapped", nullptr}};
    if (std::isfinite(each.overlapped)) row["overlapped"] = each.overlapped;
  }
  return json;
}

}  // namespace

OrderedJson simulation_json(const SimulationReport& report, const CriticalPath& path) {
  nlohmann::ordered_json json;
  json["makespan_us"] = report.makespan.value * 1e6;
  json["bubble_ratio"] = report.bubble.ratio;
  json["bubble_fraction"] = report.bubble.fraction;
  json["bubble_fraction_without_barrier"] = report.free_running_bubble;
  json["peak_in_flight"] = report.peak_in_flight;
  auto& ranks = json["ranks"] = nlohmann::ordered_json::array();
  for (const SimulationReport::Rank& rank : report.ranks) {
    ranks.push_back({{"busy_us", rank.busy.value * 1e6},
                     {"idle_us", rank.idle.value * 1e6},
                     {"peak_in_flight", rank.peak_in_flight}});
  }
  if (report.vocabulary_passes) json["vocabulary_collectives"] = collectives_json(report.vocabulary);
  auto& critical = json["critical_path"];
  critical["transfers_us"] = path.transfers.value * 1e6;
  critical["saved_by_free_transfers_us"] = path.on_transfers.value * 1e6;
  critical["saved_by_equal_stages_us"] = path.on_imbalance.value * 1e6;
  critical["slowest_stage"] = path.slowest_stage;
  auto& shares = critical["shares"] = nlohmann::ordered_json::array();
  for (const CriticalPath::Share& share : path.shares) {
    shares.push_back({{"what", share.what}, {"us", share.time.value * 1e6}, {"count", share.count}});
  }
  return json;
}

}  // namespace plumbline
