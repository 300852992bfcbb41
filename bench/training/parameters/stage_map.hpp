// Placement of a schedule's stages, and the part of the model of each.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline::training {

/// Stage s of a schedule belongs to route s / parts and is part s % parts of the model; every route is a copy
/// of the whole model.
struct StageMap {
  explicit StageMap(const Schedule& schedule);

  int routes;
  int parts;         // stages of one route
  int microbatches;  // of all routes, per step
  std::vector<int> rank_of_stage;

  int stages() const { return routes * parts; }
  /// Ascending.
  std::vector<int> stages_of(int pipeline_rank) const;
  bool same_rank(int stage, int other) const {
    return rank_of_stage[static_cast<std::size_t>(stage)] == rank_of_stage[static_cast<std::size_t>(other)];
  }
};

/// One stage on one tensor rank.
struct StagePart {
  int stage = 0;  // of the schedule
  int route = 0;
  int index = 0;  // which part of the model
  int parts = 1;
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  int tensor_rank = 0;
  int tensor_size = 1;
  int expert_rank = 0;            // which of a layer's experts it has, if they are spread over ranks
  int expert_slice = 0;           // of each of them
  bool previous_is_here = false;  // the previous stage of the route is on the same rank
  bool next_is_here = false;
  int shard = 0;                  // which part of the vocabulary its embedding and output layer are
  bool has_embedding = false;     // the first stage; with a split vocabulary the lowest stage of every rank
  bool has_output = false;        // the last stage; likewise
  bool shares_embedding = false;  // has_output, tied: the output layer is an embedding on the same rank
  std::int64_t modules = 0;       // MTP modules after its layers: the last stage
  bool copies_embedding = false;  // modules, untied: the embedding is on another rank, so that it has a copy

  bool first() const { return index == 0; }
  bool last() const { return index == parts - 1; }
  /// Its own, and one of every module.
  std::int64_t all_layers() const { return layers + modules; }
};
/// On the rank at `at`.
StagePart part_of(const RunConfig& config, const StageMap& placement, int stage, Coordinates at);

}  // namespace plumbline::training
