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

GroupExtent Layout::extent(Group group, int rank) const {
  const Coordinates mine = coordinates(rank);
  if (group >= Group::vocab_hidden && !vocab_parallel) return {};
  const auto one = [](int at) { return GroupExtent::Range{at, 1, 1}; };
  const GroupExtent::Range all_tensor{0, tensor, 1};
  const GroupExtent::Range all_data{0, data, 1};
  const GroupExtent::Range all_pipeline{0, pipeline, 1};
  const auto pair = [](int a, int b) {
    return a == b ? GroupExtent::Range{a, 1, 1}
                  : GroupExtent::Range{std::min(a, b), 2, std::max(a, b) - std::min(a, b)};
  };
  switch (group) {
    case Group::world:
      return {all_tensor, all_data, all_pipeline};
    case Group::tensor:
      return {all_tensor, one(mine.data), one(mine.pipeline)};
    case Group::data:
      return {one(mine.tensor), all_data, one(mine.pipeline)};
    case Group::pipeline:
    case Group::vocab_hidden:
    case Group::embedding_gradient:
      return {one(mine.tensor), one(mine.data), all_pipeline};
    case Group::model:
    case Group::vocab_statistics:
    case Group::vocab_gradient:
    case Group::embedding_output:
      return {all_tensor, one(mine.data), all_pipeline};
    case Group::embedding:
      if (mine.pipeline != 0 && mine.pipeline != pipeline - 1) return {};
      return {one(mine.tensor), one(mine.data), pair(0, pipeline - 1)};
    case Group::mirror:
      return {one(mine.tensor), one(mine.data), pair(mine.pipeline, pipeline - 1 - mine.pipeline)};
    case Group::shared_kv: {
      const int first = mine.tensor / kv_sharing * kv_sharing;
      return {{first, std::min(kv_sharing, tensor - first), 1}, one(mine.data), one(mine.pipeline)};
    }
    case Group::context:
      return {one(mine.tensor), {mine.data / context * context, context, 1}, one(mine.pipeline)};
    case Group::context_heads:
      if (context_heads == 1) return {};
      return {one(mine.tensor),
              {mine.data / context_heads * context_heads, context_heads, 1},
              one(mine.pipeline)};
    case Group::expert:
      if (expert == 1) return {};
      return {one(mine.tensor), {mine.data / expert * expert, expert, 1}, one(mine.pipeline)};
    case Group::expert_data: {
      if (expert == 1) return {};
      const int copies = data / expert;
      return {one(mine.tensor), {mine.data % expert, copies, copies == 1 ? 1 : expert}, one(mine.pipeline)};
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
    for (int d = 0; d < in.data.count; ++d) {
      for (int t = 0; t < in.tensor.count; ++t)
        ranks.push_back(rank_of({at(in.tensor, t), at(in.data, d), at(in.pipeline, p)}));
    }
  }
  return ranks;
}

}  // namespace plumbline
