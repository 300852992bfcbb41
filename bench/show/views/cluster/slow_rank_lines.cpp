#include "bench/show/views/cluster/slow_rank_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/output_json.hpp"

namespace plumbline {

namespace {

std::vector<RankPace> paces_of(const MeasurementReport& measurement) {
  std::vector<RankPace> paces;
  paces.reserve(measurement.computing.size());
  for (const ComputingReport& each : measurement.computing)
    paces.push_back({each.rank, each.factor, each.error});
  return paces;
}

double least_named(const MeasurementReport& measurement) {
  return least_named_factor(paces_of(measurement), {});
}

}  // namespace

std::vector<SlowRank> slow_ranks_of(const MeasurementReport& measurement) {
  return slow_ranks(paces_of(measurement), {});
}

std::size_t compared_ranks(const MeasurementReport& measurement) {
  return static_cast<std::size_t>(
      std::count_if(measurement.computing.begin(), measurement.computing.end(),
                    [](const ComputingReport& each) { return !std::isnan(each.factor); }));
}

std::string slow_ranks_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) {
    const std::vector<SlowRank> slow = slow_ranks_of(*record.measurement);
    const std::string id = records.size() > 1 ? record.id + ": " : "";
    if (slow.empty())
      text += fmt::format("{}no slow rank among {}; smallest detectable slowdown {:.2f} x\n", id,
                          compared_ranks(*record.measurement), least_named(*record.measurement));
    for (const SlowRank& each : slow) text += fmt::format("{}{}\n", id, slow_rank_line(each));
  }
  return text;
}

std::string slow_ranks_json(const std::vector<Record>& records) {
  auto list = nlohmann::ordered_json::array();
  for (const Record& record : records) {
    auto slow = nlohmann::ordered_json::array();
    for (const SlowRank& each : slow_ranks_of(*record.measurement))
      slow.push_back({{"rank", each.rank}, {"factor", each.factor}, {"standard_errors", each.certainty}});
    list.push_back({{"id", record.id},
                    {"compared_ranks", compared_ranks(*record.measurement)},
                    {"least_named_factor", least_named(*record.measurement)},
                    {"slow_ranks", std::move(slow)}});
  }
  return output_json(nlohmann::ordered_json{{"records", std::move(list)}}, 2) + "\n";
}

std::string slow_rank_line(const SlowRank& slow) {
  return fmt::format("rank {}: compute time {:.3f} x the others of its stage ({:.1f} standard errors)",
                     slow.rank, slow.factor, slow.certainty);
}

}  // namespace plumbline
