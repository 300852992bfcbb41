#include "analysis/work/routing/routed_rows.hpp"

#include <fmt/format.h>

#include <numeric>

#include "core/base/error.hpp"

namespace plumbline {

RoutedRows::RoutedRows(const RunConfig& config, const Schedule& schedule,
                       std::span<const RoutedTokens> routing, int sender)
    : ranks_(config.layout().expert_ranks()) {
  const int parts = schedule.stages_per_route();
  std::int64_t layers = 0;
  for (const StageShape& shape : stage_shapes(config, schedule)) {
    if (static_cast<int>(first_layers_.size()) == parts) break;
    first_layers_.push_back(layers);
    layers += shape.layers;
  }
  const auto experts = static_cast<std::size_t>(config.model.mixture.experts);
  const Layout layout = config.layout();
  const std::size_t local = experts / static_cast<std::size_t>(layout.expert);
  const auto first = static_cast<std::ptrdiff_t>(local) * (sender % ranks_ * layout.expert / ranks_);
  for (const RoutedTokens& line : routing) {
    if (line.tokens.size() != experts || line.copy < 0 || line.copy >= layout.senders()) {
      throw InputError(fmt::format("routing: found {} experts in copy {}, expected {} in copies 0 to {}",
                                   line.tokens.size(), line.copy, experts, layout.senders() - 1));
    }
    if (line.copy / ranks_ != sender / ranks_) continue;
    const auto begin = line.tokens.begin() + first;
    Rows& rows = rows_[{line.layer, line.microbatch}];
    rows.rows += std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(local), std::int64_t{0});
    ++rows.copies;
  }
}

StageShape RoutedRows::in_microbatch(const StageShape& shape, std::uint32_t microbatch) const {
  StageShape routed = shape;
  if (!shape.exchanges_rows()) return routed;
  const std::int64_t first = first_layers_[static_cast<std::size_t>(shape.stage) % first_layers_.size()];
  routed.expert.known_rows.assign(static_cast<std::size_t>(shape.layers), 0);
  for (std::int64_t layer = shape.dense_layers; layer < shape.layers; ++layer) {
    const auto found = rows_.find({first + layer, microbatch});
    const Rows rows = found == rows_.end() ? Rows() : found->second;
    if (rows.copies != ranks_) {
      throw InputError(fmt::format("routing: found {} copies in layer {} and micro-batch {}, expected {}",
                                   rows.copies, first + layer, microbatch, ranks_));
    }
    routed.expert.known_rows[static_cast<std::size_t>(layer)] = rows.rows;
  }
  return routed;
}

}  // namespace plumbline
