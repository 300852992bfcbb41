#include "bench/record/computing_report.hpp"

#include <cmath>
#include <utility>

namespace plumbline {
namespace {

constexpr std::size_t kMostComputingRanks = std::size_t{1} << 20;
constexpr std::int64_t kMostComputingRank = std::int64_t{1} << 30;

OrderedJson known_number(double value) {
  return std::isnan(value) ? OrderedJson() : OrderedJson(value);
}

}  // namespace

OrderedJson to_json(const std::vector<ComputingReport>& ranks) {
  OrderedJson list = OrderedJson::array();
  for (const ComputingReport& each : ranks) {
    list.push_back({{"rank", each.rank},
                    {"seconds", each.seconds.value},
                    {"factor", known_number(each.factor)},
                    {"standard_error", known_number(each.error)}});
  }
  return list;
}

std::vector<ComputingReport> computing_of(const OrderedJsonKeys& keys) {
  std::vector<ComputingReport> ranks;
  if (keys.find("computing") == nullptr) return ranks;
  const std::vector<OrderedJsonKeys> rows = keys.objects("computing", kMostComputingRanks);
  ranks.reserve(rows.size());
  for (const OrderedJsonKeys& row : rows) {
    ranks.push_back({static_cast<int>(row.integer("rank", 0, kMostComputingRank)),
                     {row.number("seconds", 0)},
                     row.number_or_null("factor", 0),
                     row.number_or_null("standard_error", 0)});
  }
  return ranks;
}

}  // namespace plumbline
