#include "analysis/published/error_intervals.hpp"

#include <algorithm>
#include <utility>

namespace plumbline {
namespace {

constexpr double kOutsideEachEnd = 0.1;  // of an 80 % interval

struct WeightedRatio {
  double ratio = 0;
  double weight = 0;
};

/// The ratio that `share` of the weight does not pass, in the order of `ratios`; the last one if there are
/// too few. The judged run is not among them: it weighs as much as their mean and may lie beyond all, as in
/// weighted conformal prediction (Tibshirani et al. 2019, arXiv:1904.06019).
double outer_quantile(const std::vector<WeightedRatio>& ratios, double share) {
  double all = 0;
  for (const WeightedRatio& entry : ratios) all += entry.weight;
  all += all / static_cast<double>(ratios.size());
  double sum = 0;
  for (const WeightedRatio& entry : ratios) {
    sum += entry.weight;
    if (sum >= share * all) return entry.ratio;
  }
  return ratios.back().ratio;
}

bool is_like(const ComparedRow& row, const RunTraits& run, const std::string& quantity, bool same_software) {
  return row.quantity == quantity && !row.traits.software.empty() && row.traits.mixture == run.mixture &&
         (!same_software || row.traits.software == run.software);
}

std::vector<WeightedRatio> ratios_like(const std::vector<ComparedTable>& tables, const RunTraits& run,
                                       const std::string& quantity, const std::string& left_out,
                                       bool same_software) {
  std::vector<WeightedRatio> ratios;
  for (const ComparedTable& table : tables) {
    if (table.name == left_out) continue;
    const auto first = static_cast<std::ptrdiff_t>(ratios.size());
    for (const ComparedRow& row : table.rows) {
      if (is_like(row, run, quantity, same_software)) ratios.push_back({row.published / row.predicted, 0});
    }
    const double count = static_cast<double>(ratios.size()) - static_cast<double>(first);
    for (auto entry = ratios.begin() + first; entry != ratios.end(); ++entry) entry->weight = 1 / count;
  }
  return ratios;
}

}  // namespace

std::optional<ErrorInterval> interval_like(const std::vector<ComparedTable>& tables, const RunTraits& run,
                                           const std::string& quantity, const std::string& left_out) {
  std::vector<WeightedRatio> ratios = ratios_like(tables, run, quantity, left_out, true);
  if (ratios.size() < static_cast<std::size_t>(kEnoughRows)) {
    ratios = ratios_like(tables, run, quantity, left_out, false);
  }
  if (ratios.empty()) return std::nullopt;
  std::sort(ratios.begin(), ratios.end(), [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
  const double high = outer_quantile(ratios, 1 - kOutsideEachEnd);
  std::reverse(ratios.begin(), ratios.end());
  return ErrorInterval{outer_quantile(ratios, 1 - kOutsideEachEnd), high, static_cast<int>(ratios.size())};
}

std::vector<HeldOutTable> hold_out_tables(const std::vector<ComparedTable>& tables,
                                          const std::string& quantity) {
  std::vector<HeldOutTable> result;
  for (const ComparedTable& table : tables) {
    HeldOutTable held{table.name};
    // Rows with the same software and kind have the same interval.
    std::map<std::pair<std::string, bool>, std::optional<ErrorInterval>> intervals;
    for (const ComparedRow& row : table.rows) {
      if (row.quantity != quantity || row.traits.software.empty()) continue;
      const auto [found, is_new] =
          intervals.try_emplace({row.traits.software, row.traits.mixture}, std::nullopt);
      if (is_new) found->second = interval_like(tables, row.traits, quantity, table.name);
      const std::optional<ErrorInterval>& interval = found->second;
      if (!interval) continue;
      const double ratio = row.published / row.predicted;
      ++held.rows;
      held.inside += ratio >= interval->low && ratio <= interval->high ? 1 : 0;
      held.width += interval->high - interval->low;
    }
    if (held.rows == 0) continue;
    held.width /= held.rows;
    result.push_back(std::move(held));
  }
  return result;
}

}  // namespace plumbline
