#include "bench/record/expert_load_report.hpp"

#include <numeric>

namespace plumbline {
namespace {

std::int64_t sum_of(const std::vector<ExpertLoadReport>& layers,
                    std::vector<std::int64_t> ExpertLoadReport::*numbers) {
  std::int64_t sum = 0;
  for (const ExpertLoadReport& layer : layers)
    sum = std::accumulate((layer.*numbers).begin(), (layer.*numbers).end(), sum);
  return sum;
}

}  // namespace

std::int64_t tokens_of(const std::vector<ExpertLoadReport>& layers) {
  return sum_of(layers, &ExpertLoadReport::tokens);
}
std::int64_t dropped_of(const std::vector<ExpertLoadReport>& layers) {
  return sum_of(layers, &ExpertLoadReport::dropped);
}

}  // namespace plumbline
