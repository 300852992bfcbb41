#include "bench/training/parameters/stage_map.hpp"

#include <numeric>

#include "core/config/layer_distribution.hpp"

namespace plumbline::training {

StageMap::StageMap(const Schedule& schedule)
    : routes(schedule.routes),
      parts(schedule.stages_per_route()),
      microbatches(schedule.microbatches),
      rank_of_stage(schedule.rank_of_stage) {}

std::vector<int> StageMap::stages_of(int pipeline_rank) const {
  std::vector<int> found;
  for (int stage = 0; stage < stages(); ++stage) {
    if (rank_of_stage[static_cast<std::size_t>(stage)] == pipeline_rank) found.push_back(stage);
  }
  return found;
}

StagePart part_of(const RunConfig& config, const StageMap& placement, int stage, Coordinates at) {
  const std::vector<int> layers = layers_per_stage(config, placement.parts);
  StagePart part;
  part.stage = stage;
  part.route = stage / placement.parts;
  part.index = stage % placement.parts;
  part.parts = placement.parts;
  part.first_layer = std::accumulate(layers.begin(), layers.begin() + part.index, std::int64_t{0});
  part.layers = layers[static_cast<std::size_t>(part.index)];
  part.tensor_rank = at.tensor;
  part.tensor_size = config.parallel.tensor;
  const ExpertPlace experts = config.layout().expert_place(at);
  part.expert_rank = experts.part;
  part.expert_slice = experts.slice;
  part.previous_is_here = !part.first() && placement.same_rank(stage - 1, stage);
  part.next_is_here = !part.last() && placement.same_rank(stage + 1, stage);
  part.shard = at.tensor;
  part.has_embedding = part.first();
  part.has_output = part.last();
  if (config.parallel.splits_vocabulary()) {
    const int rank = placement.rank_of_stage[static_cast<std::size_t>(stage)];
    part.shard += rank * part.tensor_size;
    part.has_embedding = part.has_output = placement.stages_of(rank).front() == stage;
    part.shares_embedding = config.model.embedding.tied && part.has_output;
  } else if (part.last()) {
    bool embedding_is_here = false;
    for (int route = 0; route < placement.routes; ++route) {
      embedding_is_here |= placement.same_rank(route * placement.parts, stage);
    }
    part.shares_embedding = config.model.embedding.tied && embedding_is_here;
    part.modules = config.model.prediction_modules;
    part.copies_embedding = part.modules > 0 && !config.model.embedding.tied && !embedding_is_here;
  }
  return part;
}

}  // namespace plumbline::training
