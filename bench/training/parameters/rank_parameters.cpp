#include "bench/training/parameters/rank_parameters.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::training {

int pieces_of(const RunConfig& config, bool spread) {
  if (config.parallel.effective_zero_stage() == 0) return 1;
  if (!spread) return config.parallel.state_shards();
  return config.parallel.expert_copies() / config.parallel.dp.optimizer_instances;
}

namespace {

/// Embeddings, positions and output layers are outside the layers.
ParameterClass class_of(const ParameterLayout& parameters, int unit) {
  const auto in_layer = [&](const Parameter& parameter) {
    return parameter.unit == unit && parameter.layer >= 0;
  };
  return std::any_of(parameters.list.begin(), parameters.list.end(), in_layer) ? ParameterClass::matrix
                                                                               : ParameterClass::other;
}

bool holds_vocabulary(const ParameterLayout& parameters, int unit) {
  return std::any_of(parameters.list.begin(), parameters.list.end(), [&](const Parameter& parameter) {
    return parameter.unit == unit &&
           (parameter.role == "embedding.weight" || parameter.role == "output.weight");
  });
}

}  // namespace

RankParameters rank_parameters(const RunConfig& config, const StageMap& placement, Coordinates at) {
  const bool has_instances = config.parallel.dp.optimizer_instances > 1;
  const bool sharded = config.parallel.effective_zero_stage() > 0;
  RankParameters rank;
  for (const int stage : placement.stages_of(at.pipeline)) {
    StageEntry entry;
    entry.part = part_of(config, placement, stage, at);
    entry.parameters = stage_parameters(config, entry.part);
    entry.vector_offset = rank.vectors;
    entry.untrained_offset = rank.untrained;
    rank.untrained += entry.parameters.untrained;
    entry.first_unit = static_cast<int>(rank.units.size());
    rank.vectors += entry.parameters.vectors;
    const auto units = static_cast<int>(entry.parameters.unit_elements.size());
    for (int i = 0; i < units; ++i) {
      Unit unit;
      unit.offset = rank.matrices;
      unit.owned_offset = rank.owned;
      unit.elements = entry.parameters.unit_elements[static_cast<std::size_t>(i)];
      unit.spread = i >= units - entry.parameters.spread_units;
      unit.shard = config.parallel.splits_vocabulary() && holds_vocabulary(entry.parameters, i);
      unit.group = unit.spread ? Group::expert_data : has_instances ? Group::optimizer_instance : Group::data;
      unit.frozen = !entry.parameters.trains(i);
      unit.pieces = unit.frozen ? 1 : pieces_of(config, unit.spread);
      const std::int64_t multiple = sharded && !unit.frozen ? std::int64_t{64} * unit.pieces : 1;
      unit.padded = (unit.elements + multiple - 1) / multiple * multiple;
      rank.matrices += unit.padded;
      unit.of = class_of(entry.parameters, i);
      unit.other_offset = rank.others;
      unit.other_owned_offset = rank.others_owned;
      if (unit.of == ParameterClass::other) {
        rank.others += unit.padded;
        rank.others_owned += unit.owned();
      }
      unit.trained_offset = rank.trained;
      if (!unit.frozen) {
        rank.trained += unit.padded;
        rank.owned += unit.owned();
      }
      rank.units.push_back(unit);
    }
    rank.stages.push_back(std::move(entry));
  }
  return rank;
}

}  // namespace plumbline::training
