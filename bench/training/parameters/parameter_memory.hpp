// Memory of a rank's parameters, gradients and optimizer state for the whole run, sharded over the data ranks
// by ZeRO stage (Rajbhandari et al. 2020, arXiv:1910.02054 §5).
#pragma once

#include <vector>

#include "bench/training/parameters/context.hpp"
#include "bench/training/parameters/rank_parameters.hpp"

namespace plumbline::training {

/// Units that a set has numbers of.
enum class UnitSet {
  all,
  trained,  // beside adapters; no vectors
  others,   // that are no matrices of layers
};

/// One value for every parameter of the rank: all vectors, and of the matrices all units whole, or this data
/// rank's piece of each.
struct ParameterSet {
  Tensor vectors;
  Tensor matrices;
  bool sharded = false;
  UnitSet units = UnitSet::all;
  bool of_adapters() const { return units == UnitSet::trained; }
  explicit operator bool() const { return matrices || vectors; }
};

class ParameterMemory {
 public:
  /// Contents of the values are undefined until loaded. A teacher, whose category is its own, and a model
  /// that only generates have values only.
  ParameterMemory(const TrainingContext& context, const RankParameters& parameters);

  ParameterSet values;
  ParameterSet gradients;
  ParameterSet master;            // empty when the values are fp32
  ParameterSet moment1, moment2;  // as many as the optimizer keeps
  Tensor secondary;               // of the values, for gathers among fewer ranks (hpz.md); empty without
  Tensor untrained;               // fp32: parameters without gradient, equal on every data rank; empty
                                  // without

  /// All of a unit, padding included, as one row; the set must not be sharded. This and the next: empty for a
  /// unit that the set does not have.
  Matrix whole(const ParameterSet& set, int unit) const;
  /// Part of a unit that this data rank owns, as one row: all of it without ZeRO.
  Matrix owned(const ParameterSet& set, int unit) const;
  /// Units other than spread experts and shards of the vocabulary have one.
  bool has_secondary_shard(int unit) const {
    return static_cast<bool>(secondary) && has_secondary_shard(this->unit(unit));
  }
  /// Shard of a unit that this rank keeps for the ranks that gather secondary shards, as one row, and the
  /// same part of the unit's values, `gathered`.
  Matrix secondary_shard(int unit) const;
  Matrix secondary_part(const Matrix& gathered) const;
  /// First element of the owned piece within its unit.
  std::int64_t owned_from(int unit) const { return piece_of(this->unit(unit)) * owned_elements(unit); }
  std::int64_t owned_elements(int unit) const { return this->unit(unit).owned(); }
  const Unit& unit(int index) const { return parameters_.units[static_cast<std::size_t>(index)]; }
  int units() const { return static_cast<int>(parameters_.units.size()); }

 private:
  static bool has_secondary_shard(const Unit& unit) { return !unit.spread && !unit.shard; }

  const RankParameters& parameters_;
  /// Index of this rank's piece of a unit.
  std::int64_t piece_of(const Unit& unit) const {
    if (unit.pieces == 1) return 0;
    return (unit.spread ? expert_copy_ : data_rank_) % unit.pieces;
  }

  const std::int64_t data_rank_;
  const std::int64_t secondary_ranks_;
  std::vector<std::int64_t> secondary_offsets_;  // by unit; empty without
  const std::int64_t expert_copy_;
};

}  // namespace plumbline::training
