#include "core/parallel/layout.hpp"

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

std::vector<int> Layout::members(Group group, int rank) const {
  const Coordinates mine = coordinates(rank);
  if (group >= Group::vocab_hidden && !vocab_parallel) return {};
  if (group == Group::embedding && mine.pipeline != 0 && mine.pipeline != pipeline - 1) return {};
  std::vector<int> ranks;
  for (int other = 0; other < world(); ++other) {
    const Coordinates at = coordinates(other);
    const bool same_tensor = at.tensor == mine.tensor;
    const bool same_data = at.data == mine.data;
    const bool same_pipeline = at.pipeline == mine.pipeline;
    bool in = false;
    switch (group) {
      case Group::world:
        in = true;
        break;
      case Group::tensor:
        in = same_data && same_pipeline;
        break;
      case Group::data:
        in = same_tensor && same_pipeline;
        break;
      case Group::pipeline:
      case Group::vocab_hidden:
      case Group::embedding_gradient:
        in = same_tensor && same_data;
        break;
      case Group::model:
      case Group::vocab_statistics:
      case Group::vocab_gradient:
      case Group::embedding_output:
        in = same_data;
        break;
      case Group::embedding:
        in = same_tensor && same_data && (at.pipeline == 0 || at.pipeline == pipeline - 1);
        break;
      case Group::mirror:
        in = same_tensor && same_data && (same_pipeline || at.pipeline == pipeline - 1 - mine.pipeline);
        break;
      case Group::shared_kv:
        in = same_data && same_pipeline && at.tensor / kv_sharing == mine.tensor / kv_sharing;
        break;
    }
    if (in) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace plumbline
