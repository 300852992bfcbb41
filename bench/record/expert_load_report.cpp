#include "bench/record/expert_load_report.hpp"

#include <numeric>

namespace plumbline {
namespace {

constexpr std::size_t kMostLayers = std::size_t{1} << 16;
constexpr std::int64_t kMostLayer = std::int64_t{1} << 20;
constexpr double kMostTokens = 1e15;  // exact in a double

std::int64_t sum_of(const std::vector<ExpertLoadReport>& layers,
                    std::vector<std::int64_t> ExpertLoadReport::*numbers) {
  std::int64_t sum = 0;
  for (const ExpertLoadReport& layer : layers)
    sum = std::accumulate((layer.*numbers).begin(), (layer.*numbers).end(), sum);
  return sum;
}

std::vector<std::int64_t> whole_numbers(const OrderedJsonKeys& row, const char* key) {
  const std::vector<double> numbers = row.numbers(key, 0, kMostTokens);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::int64_t tokens_of(const std::vector<ExpertLoadReport>& layers) {
  return sum_of(layers, &ExpertLoadReport::tokens);
}
std::int64_t dropped_of(const std::vector<ExpertLoadReport>& layers) {
  return sum_of(layers, &ExpertLoadReport::dropped);
}

OrderedJson to_json(const std::vector<ExpertLoadReport>& layers) {
  OrderedJson list = OrderedJson::array();
  for (const ExpertLoadReport& each : layers)
    list.push_back({{"layer", each.layer}, {"tokens", each.tokens}, {"dropped", each.dropped}});
  return list;
}

std::vector<ExpertLoadReport> expert_load_of(const OrderedJsonKeys& keys) {
  std::vector<ExpertLoadReport> layers;
  if (keys.find("expert_load") == nullptr) return layers;
  for (const OrderedJsonKeys& row : keys.objects("expert_load", kMostLayers)) {
    ExpertLoadReport& layer = layers.emplace_back();
    layer.layer = row.integer("layer", 0, kMostLayer);
    layer.tokens = whole_numbers(row, "tokens");
    layer.dropped = whole_numbers(row, "dropped");
    if (layer.dropped.size() != layer.tokens.size()) row.refuse("dropped", "as many numbers as tokens");
  }
  return layers;
}

}  // namespace plumbline
