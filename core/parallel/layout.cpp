#include "core/parallel/layout.hpp"

#include <algorithm>
#include <array>

namespace plumbline {

std::string_view name_of(Group group) {
  static constexpr std::array<std::string_view, kGroups> kNames = {"world",
                                                                   "tensor",
                                                                   "data",
                                                                   "pipeline",
                                                                   "model",
                                                                   "embedding",
                                                                   "mirror",
                                                                   "shared_kv",
                                                                   "context",
                                                                   "context_heads",
                                                                   "expert",
                                                                   "expert_data",
                                                                   "zero_param",
                                                                   "optimizer_instance",
                                                                   "between_instances",
                                                                   "vocab_hidden",
                                                                   "vocab_statistics",
                                                                   "vocab_gradient",
                                                                   "embedding_output",
                                                                   "embedding_gradient"};
  return kNames[static_cast<std::size_t>(group)];
}

Coordinates Layout::coordinates(int rank) const {
  return {rank % tensor, rank / tensor % data, rank / (tensor * data)};
}

int Layout::rank_of(Coordinates at) const {
  return at.tensor + tensor * (at.data + data * at.pipeline);
}

ExpertPlace Layout::expert_place(Coordinates at) const {
  if (!folds_experts()) return {at.tensor, at.data % expert, at.data / expert};
  const int place = at.tensor + tensor * at.data;
  return {place % expert_tensor, place / expert_tensor % expert, place / (expert_tensor * expert)};
}

Coordinates Layout::holder_of(ExpertPlace place) const {
  const int among = place.copy * expert + place.part;
  if (!folds_experts()) return {place.slice, among, 0};
  const int in_stage = among * expert_tensor + place.slice;
  return {in_stage % tensor, in_stage / tensor, 0};
}

GroupExtent Layout::extent(Group group, int rank) const {
  const Coordinates mine = coordinates(rank);
  if (group >= Group::vocab_hidden && !vocab_parallel) return {};
  using Range = GroupExtent::Range;
  const auto range = [](int first, int count, int stride) {
    return Range{first, count, count == 1 ? 1 : stride};
  };
  const auto one = [&](int at) { return range(at, 1, 1); };
  const Range here = one(mine.pipeline);
  const Range all_pipeline{0, pipeline, 1};
  const int place = mine.tensor + tensor * mine.data;
  const Range of_tensor = range(tensor * mine.data, tensor, 1);
  /// Neighbouring data ranks.
  const auto of_data = [&](int first, int count) {
    return range(mine.tensor + tensor * first, count, tensor);
  };
  const auto pair = [&](int a, int b) {
    return a == b ? one(a) : Range{std::min(a, b), 2, std::max(a, b) - std::min(a, b)};
  };
  switch (group) {
    case Group::world:
      return {range(0, tensor * data, 1), all_pipeline};
    case Group::tensor:
      return {of_tensor, here};
    case Group::data:
      return {of_data(0, data), here};
    case Group::pipeline:
    case Group::vocab_hidden:
    case Group::embedding_gradient:
      return {one(place), all_pipeline};
    case Group::model:
    case Group::vocab_statistics:
    case Group::vocab_gradient:
    case Group::embedding_output:
      return {of_tensor, all_pipeline};
    case Group::embedding:
      if (mine.pipeline != 0 && mine.pipeline != pipeline - 1) return {};
      return {one(place), pair(0, pipeline - 1)};
    case Group::mirror:
      return {one(place), pair(mine.pipeline, pipeline - 1 - mine.pipeline)};
    case Group::shared_kv: {
      const int first = mine.tensor / kv_sharing * kv_sharing;
      return {range(tensor * mine.data + first, std::min(kv_sharing, tensor - first), 1), here};
    }
    case Group::context:
      return {of_data(mine.data / context * context, context), here};
    case Group::context_heads:
      if (context_heads == 1) return {};
      return {of_data(mine.data / context_heads * context_heads, context_heads), here};
    case Group::expert: {
      if (!spreads_experts()) return {};
      const int ranks = expert_ranks();
      if (!folds_experts()) return {of_data(mine.data / expert * expert, expert), here};
      return {range(place / ranks * ranks, ranks, 1), here};
    }
    case Group::expert_data: {
      if (!spreads_experts()) return {};
      const int apart = expert_ranks() * (folds_experts() ? 1 : tensor);
      const int among = tensor * (optimizer_instance == 0 ? data : optimizer_instance);
      return {range(place / among * among + place % apart, among / apart, apart), here};
    }
    case Group::zero_param:
      if (zero_param == 1) return {};
      return {of_data(mine.data / zero_param * zero_param, zero_param), here};
    case Group::optimizer_instance:
      if (optimizer_instance == 0) return {};
      return {of_data(mine.data / optimizer_instance * optimizer_instance, optimizer_instance), here};
    case Group::between_instances: {
      if (optimizer_instance == 0) return {};
      const int instances = (data + optimizer_instance - 1) / optimizer_instance;
      return {range(mine.tensor + tensor * (mine.data % optimizer_instance), instances,
                    tensor * optimizer_instance),
              here};
    }
  }
  return {};
}

std::vector<int> Layout::members(Group group, int rank) const {
  const GroupExtent in = extent(group, rank);
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(in.size()));
  const auto at = [](const GroupExtent::Range& range, int i) { return range.first + i * range.stride; };
  for (int p = 0; p < in.pipeline.count; ++p) {
    for (int i = 0; i < in.stage.count; ++i)
      ranks.push_back(at(in.stage, i) + tensor * data * at(in.pipeline, p));
  }
  return ranks;
}

}  // namespace plumbline
