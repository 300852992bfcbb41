#include "bench/training/trainer/routing_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "bench/training/trainer/host_values.hpp"
#include "core/base/atomic_file.hpp"

namespace plumbline::training {
namespace {

/// Three numbers and one per expert.
std::vector<std::int64_t> as_numbers(const std::vector<ExpertLoad>& loads) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(loads.empty() ? 0 : loads.size() * (3 + loads.front().tokens.size()));
  for (const ExpertLoad& load : loads) {
    numbers.insert(numbers.end(), {load.copy, load.layer, load.microbatch});
    numbers.insert(numbers.end(), load.tokens.begin(), load.tokens.end());
  }
  return numbers;
}

}  // namespace

void save_routing(const RankStages& stages, Communicator& control, const std::string& path) {
  const auto experts = static_cast<std::ptrdiff_t>(stages.context().model().mixture.experts);
  const Layout& layout = control.layout();
  const std::vector<std::int64_t> mine = as_numbers(stages.expert_load());
  const std::vector<std::int64_t> sizes = from_every_rank(control, static_cast<std::int64_t>(mine.size()));
  std::vector<std::vector<std::int64_t>> rows;
  for (int rank = 0; rank < layout.world(); ++rank) {
    if (layout.coordinates(rank).tensor != 0 && !layout.folds_experts())
      continue;  // tensor ranks route alike
    std::vector<std::int64_t> numbers = mine;
    numbers.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]));
    broadcast_values(control, rank, numbers);
    for (auto at = numbers.begin(); at != numbers.end(); at += 3 + experts)
      rows.emplace_back(at, at + 3 + experts);
  }
  if (control.rank() != 0) return;
  std::sort(rows.begin(), rows.end());
  std::string text = "copy,layer,microbatch";
  for (std::ptrdiff_t expert = 0; expert < experts; ++expert) text += fmt::format(",expert {}", expert);
  for (const std::vector<std::int64_t>& row : rows) text += fmt::format("\n{}", fmt::join(row, ","));
  write_whole_file(path, text + "\n");
}

}  // namespace plumbline::training
