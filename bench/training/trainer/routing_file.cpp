#include "bench/training/trainer/routing_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "bench/training/trainer/host_values.hpp"
#include "core/base/atomic_file.hpp"
#include "core/config/distillation_config.hpp"

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

/// For every layer its number and the tokens that chose and were dropped by every expert, one layer after the
/// other.
std::vector<std::int64_t> layers_of(const RankStages& stages) {
  const auto experts = static_cast<std::size_t>(stages.context().model().mixture.experts);
  std::map<std::int32_t, std::vector<std::int64_t>> layers;
  for (const ExpertLoad& load : stages.expert_load()) {
    std::vector<std::int64_t>& sums = layers[load.layer];
    sums.resize(2 * experts);
    for (std::size_t i = 0; i < experts; ++i) {
      sums[i] += load.tokens[i];
      sums[experts + i] += std::max(0, load.tokens[i] - load.rows[i]);
    }
  }
  std::vector<std::int64_t> numbers;
  for (const auto& [layer, sums] : layers) {
    numbers.push_back(layer);
    numbers.insert(numbers.end(), sums.begin(), sums.end());
  }
  return numbers;
}

/// Passes the data of every rank that sends tokens to `take`, rank after rank, on all ranks. Tensor ranks
/// route alike, and send the same unless experts have their own sharding.
template <class Take>
void from_every_sender(const std::vector<std::int64_t>& mine, Communicator& control, const Take& take) {
  const Layout& layout = control.layout();
  const std::vector<std::int64_t> sizes = from_every_rank(control, static_cast<std::int64_t>(mine.size()));
  for (int rank = 0; rank < layout.world(); ++rank) {
    if (layout.coordinates(rank).tensor != 0 && !layout.folds_experts()) continue;
    std::vector<std::int64_t> numbers = mine;
    numbers.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]));
    if (numbers.empty()) continue;
    broadcast_values(control, rank, numbers);
    take(numbers);
  }
}

/// Adds the lines of a step to `text`, on world rank 0. Collective.
void add_step(const std::vector<ExpertLoad>& loads, std::int64_t experts, int step, Communicator& control,
              std::string& text) {
  std::vector<std::vector<std::int64_t>> rows;
  from_every_sender(as_numbers(loads), control, [&](const std::vector<std::int64_t>& numbers) {
    for (auto at = numbers.begin(); at != numbers.end(); at += 3 + experts)
      rows.emplace_back(at, at + 3 + experts);
  });
  if (control.rank() != 0) return;
  std::sort(rows.begin(), rows.end());
  if (text.empty()) {
    text = "step,copy,layer,microbatch";
    for (std::int64_t expert = 0; expert < experts; ++expert) text += fmt::format(",expert {}", expert);
    text += '\n';
  }
  for (const std::vector<std::int64_t>& row : rows) text += fmt::format("{},{}\n", step, fmt::join(row, ","));
}

}  // namespace

std::vector<LayerLoad> gather_layer_loads(const RankStages& stages, Communicator& control) {
  const auto experts = static_cast<std::ptrdiff_t>(stages.context().model().mixture.experts);
  std::map<std::int64_t, LayerLoad> layers;
  from_every_sender(layers_of(stages), control, [&](const std::vector<std::int64_t>& numbers) {
    for (auto at = numbers.begin(); at != numbers.end(); at += 1 + 2 * experts) {
      LayerLoad& load = layers[*at];
      load.layer = *at;
      load.tokens.resize(static_cast<std::size_t>(experts));
      load.dropped.resize(static_cast<std::size_t>(experts));
      for (std::ptrdiff_t i = 0; i < experts; ++i) {
        load.tokens[static_cast<std::size_t>(i)] += at[1 + i];
        load.dropped[static_cast<std::size_t>(i)] += at[1 + experts + i];
      }
    }
  });
  std::vector<LayerLoad> loads;
  loads.reserve(layers.size());
  for (auto& [layer, load] : layers) loads.push_back(std::move(load));
  return loads;
}

void RoutingFile::step_ended(const RankStages& stages, int step, Communicator& control) {
  if (path_.empty()) return;
  const RunConfig& config = stages.context().config;
  if (config.model.mixture)
    add_step(stages.expert_load(), config.model.mixture.experts, step, control, text_);
  if (stages.teacher() != nullptr && config.distillation.teacher->mixture)
    add_step(stages.teacher()->expert_load, config.distillation.teacher->mixture.experts, step, control,
             teacher_);
}

void RoutingFile::write() const {
  if (!text_.empty()) write_whole_file(path_, text_);
  if (!teacher_.empty()) write_whole_file(teacher_routing_file(path_), teacher_);
}

}  // namespace plumbline::training
