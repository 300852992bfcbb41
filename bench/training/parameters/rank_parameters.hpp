// Layout of the parameters of all stages of a rank in its two memories, vectors and matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/parameters/parameters.hpp"
#include "bench/training/parameters/stage_map.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::training {

/// A unit's place in the rank's matrix memory.
struct Unit {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  bool frozen = false;              // it has values only, on one copy of the data ranks as on the others
  std::int64_t trained_offset = 0;  // in a memory of those that train
  std::int64_t padded = 0;          // with ZeRO a multiple of 64 per piece
  int pieces = 1;                   // with ZeRO: one per rank of `group`
  bool spread = false;              // of experts that are spread over ranks
  ParameterClass of = ParameterClass::matrix;
  std::int64_t other_offset = 0;  // in a memory of units that are no matrices of layers
  std::int64_t other_owned_offset = 0;
  bool shard = false;             // of a vocabulary that all ranks share: used before the first F
  std::int64_t owned_offset = 0;  // in a memory of one piece of every unit
  Group group = Group::data;      // that holds the same values, of several instances of the optimizer one

  std::int64_t owned() const { return padded / pieces; }
};

/// One stage's share.
struct StageEntry {
  StagePart part;
  ParameterLayout parameters;
  std::int64_t vector_offset = 0;  // in the rank's vector memory
  std::int64_t untrained_offset = 0;
  int first_unit = 0;  // its units are neighbours

  int unit_of(const Parameter& parameter) const { return first_unit + parameter.unit; }
};

/// Padding rows of the vocabulary belong to no slice.
ParameterLayout stage_parameters(const RunConfig& config, const StagePart& part);

/// Pure data: any rank can list what any other rank holds.
struct RankParameters {
  std::vector<StageEntry> stages;  // ascending
  std::vector<Unit> units;
  std::int64_t vectors = 0;   // elements
  std::int64_t matrices = 0;  // elements, padding included
  std::int64_t trained = 0;   // of these, in units that train
  std::int64_t owned = 0;     // of these, one piece of every unit
  std::int64_t others = 0;    // of matrices, those in units that are no matrices of layers
  std::int64_t others_owned = 0;
  std::int64_t untrained = 0;
};
RankParameters rank_parameters(const RunConfig& config, const StageMap& placement, Coordinates at);

/// Number of pieces that units are sharded into: one per rank that holds the same values, or, with several
/// optimizer instances, one per rank of an instance; 1 without ZeRO. `spread`: for experts that are spread
/// over ranks.
int pieces_of(const RunConfig& config, bool spread = false);

}  // namespace plumbline::training
