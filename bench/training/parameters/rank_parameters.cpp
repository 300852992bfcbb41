#include "bench/training/parameters/rank_parameters.hpp"

#include <utility>

namespace plumbline::training {

int pieces_of(const RunConfig& config) {
  return config.parallel.effective_zero_stage() > 0 ? config.parallel.copies() : 1;
}

RankParameters rank_parameters(const RunConfig& config, const StageMap& placement, int pipeline_rank,
                               int tensor_rank) {
  const std::int64_t multiple =
      config.parallel.effective_zero_stage() > 0 ? std::int64_t{64} * pieces_of(config) : 1;
  RankParameters rank;
  for (const int stage : placement.stages_of(pipeline_rank)) {
    StageEntry entry;
    entry.part = part_of(config, placement, stage, tensor_rank);
    entry.parameters = stage_parameters(config, entry.part);
    entry.vector_offset = rank.vectors;
    entry.untrained_offset = rank.untrained;
    rank.untrained += entry.parameters.untrained;
    entry.first_unit = static_cast<int>(rank.units.size());
    rank.vectors += entry.parameters.vectors;
    for (const std::int64_t elements : entry.parameters.unit_elements) {
      const Unit unit{rank.matrices, elements, (elements + multiple - 1) / multiple * multiple};
      rank.matrices += unit.padded;
      rank.units.push_back(unit);
    }
    rank.stages.push_back(std::move(entry));
  }
  return rank;
}

}  // namespace plumbline::training
