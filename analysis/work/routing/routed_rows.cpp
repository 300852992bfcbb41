#include "analysis/work/routing/routed_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/base/error.hpp"

namespace plumbline {

RoutedRows::RoutedRows(const RunConfig& config, const Schedule& schedule,
                       std::span<const RoutedTokens> routing, int sender)
    : RoutedRows(StepModel(config, schedule), routing, sender) {}

RoutedRows::RoutedRows(const StepModel& model, std::span<const RoutedTokens> routing, int sender)
    : ranks_(model.layout.expert_ranks()) {
  std::int64_t layers = 0;
  for (const StageShape& shape : model.route()) {
    first_layers_.push_back(layers);
    layers += shape.layers;
  }
  const auto experts = static_cast<std::size_t>(model.config.model.mixture.experts);
  const Layout& layout = model.layout;
  const std::size_t local = experts / static_cast<std::size_t>(layout.expert);
  const auto first = static_cast<std::ptrdiff_t>(local) * (sender % ranks_ * layout.expert / ranks_);
  for (const RoutedTokens& line : routing) {
    if (line.tokens.size() != experts || line.copy < 0 || line.copy >= layout.senders()) {
      throw InputError(fmt::format("routing: found {} experts in copy {}, expected {} in copies 0 to {}",
                                   line.tokens.size(), line.copy, experts, layout.senders() - 1));
    }
    if (line.copy / ranks_ != sender / ranks_) continue;
    const auto rows_of = [&](auto begin, std::size_t count) {
      return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), std::int64_t{0},
                             [&](std::int64_t sum, std::int32_t tokens) {
                               return sum + model.any().moe.rows_of_expert(tokens);
                             });
    };
    Rows& rows = rows_[{line.layer, line.microbatch}];
    rows.rows.here += rows_of(line.tokens.begin() + first, local);
    if (line.copy == sender) rows.rows.sent = rows_of(line.tokens.begin(), experts);
    ++rows.copies;
  }
}

void set_mean_rows(const MeanRows& rows, std::span<StageShape> stages) {
  if (rows.sent == 0) return;
  for (StageShape& shape : stages) {
    shape.moe.choice_rows = rows.sent;
    if (shape.exchanges_rows()) shape.expert.rows = rows.here;
  }
}

MeanRows mean_rows(const StepModel& model, std::span<const RoutedTokens> routing) {
  const MixtureShape& moe = model.any().moe;
  const Layout& layout = model.layout;
  const std::size_t local = static_cast<std::size_t>(moe.experts / layout.expert);
  std::int64_t sent = 0;
  std::map<std::tuple<int, std::int64_t, std::uint32_t>, std::vector<std::int64_t>> of_groups;
  for (const RoutedTokens& line : routing) {
    std::vector<std::int64_t>& here =
        of_groups[{line.copy / layout.expert_ranks(), line.layer, line.microbatch}];
    here.resize(static_cast<std::size_t>(layout.expert));
    for (std::size_t i = 0; i < line.tokens.size(); ++i) {
      const std::int64_t rows = moe.rows_of_expert(line.tokens[i]);
      here[i / local] += rows;
      sent += rows;
    }
  }
  if (routing.empty()) return {};
  std::int64_t busiest = 0;
  for (const auto& [place, here] : of_groups) busiest += *std::max_element(here.begin(), here.end());
  return {sent / std::ssize(routing), busiest / std::ssize(of_groups)};
}

MeanRows mean_rows(const StepModel& model, const std::vector<std::vector<RoutedTokens>>& steps) {
  MeanRows mean;
  for (const std::vector<RoutedTokens>& step : steps) {
    const MeanRows rows = mean_rows(model, std::span<const RoutedTokens>(step));
    mean.sent += rows.sent;
    mean.here += rows.here;
  }
  const auto count = std::max<std::int64_t>(1, std::ssize(steps));
  return {mean.sent / count, mean.here / count};
}

StageShape RoutedRows::in_microbatch(const StageShape& shape, std::uint32_t microbatch) const {
  StageShape routed = shape;
  if (!shape.depends_on_routing()) return routed;
  const std::int64_t first =
      first_layers_[static_cast<std::size_t>(shape.place.stage) % first_layers_.size()];
  const std::int64_t layers = shape.layers + shape.own_modules();
  routed.moe.known_rows.assign(static_cast<std::size_t>(layers), {});
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (shape.kind_of(layer).dense) continue;
    const auto found = rows_.find({first + layer, microbatch});
    const Rows rows = found == rows_.end() ? Rows() : found->second;
    if (rows.copies != ranks_) {
      throw InputError(fmt::format("routing: found {} copies in layer {} and micro-batch {}, expected {}",
                                   rows.copies, first + layer, microbatch, ranks_));
    }
    routed.moe.known_rows[static_cast<std::size_t>(layer)] = rows.rows;
  }
  return routed;
}

}  // namespace plumbline
