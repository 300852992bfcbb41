// The gradients of units from their first weight gradient to their sum over the data ranks.
#pragma once

#include <vector>

#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// Reduction over the data group while the backward still runs.
/// - Without ZeRO: buckets of neighbouring units, each all-reduced once its gradients are final (Li et al.
///   2020, PyTorch DDP, arXiv:2006.15704 §3.2).
/// - ZeRO 1: each unit is reduce-scattered once it is final.
/// - ZeRO 2 and 3: each unit's gradient lives within one action only and is reduce-scattered at its end.
/// Never two reduce-scatters are in progress; with optimizer instances (bench/training/instances.md) the sum
/// of the piece between them is part of each. Without overlap_grad_reduce (bench/training/overlap.md) nothing
/// is in progress while the backward runs.
class UnitGradients {
 public:
  UnitGradients(const TrainingContext& context, const RankParameters& parameters,
                const ParameterMemory& memory);

  /// The unit gets `contributions` more done() calls per step.
  void expect(int unit, int contributions);
  void start_step();

  /// Buffer to accumulate the unit's weight gradients in, as one row.
  Matrix open(int unit);
  /// The action has made all its weight gradients of the unit.
  void done(int unit);
  void end_action();
  /// Reduces the rest, vectors included, and waits for all of it.
  void finish_step();
  /// For reductions, with ZeRO 1 and for copying their pieces, since this was made.
  Seconds waited() const { return waited_; }

 private:
  struct Bucket {
    Group group = Group::data;
    std::int64_t first = 0;  // element in the matrix memory of gradients
    std::int64_t elements = 0;
    int units = 0;
    int open_units = 0;  // not final yet
    bool waits_for_end = false;
    Ticket ticket;
    bool started = false;
  };
  struct Scatter {
    int unit = -1;
    Tensor piece;
    Ticket ticket;
  };

  /// The ZeRO stage in effect for a unit: units with one copy are not sharded, and nothing of them is
  /// reduced.
  int zero_of(int unit) const { return alone(unit) ? 0 : zero_stage_; }
  bool alone(int unit) const {
    const Unit& place = memory_.unit(unit);
    return place.frozen || (place.spread ? spread_alone_ : alone_);
  }
  void make_buckets(const RankParameters& parameters);
  void start(Bucket& bucket);
  void start_scatter(int unit);
  void finish_scatter();

  const TrainingContext& context_;
  const ParameterMemory& memory_;
  const int zero_stage_;
  const bool alone_;          // no other rank has the same values
  const bool spread_alone_;   // nor its experts, if these are spread
  const bool reduces_;        // some other rank has something of it
  const bool has_instances_;  // of the optimizer: reduced gradients are summed between them
  const bool overlaps_;
  std::vector<int> contributions_;  // per unit and step
  std::vector<int> outstanding_;    // of these, in this step
  std::vector<Tensor> full_;        // ZeRO 2, 3: alive within an action
  std::vector<Bucket> buckets_;     // without ZeRO
  std::vector<std::size_t> bucket_of_unit_;
  std::vector<int> stages_last_units_first_;  // ZeRO 1 without overlap: the order at the end
  Scatter under_way_;
  Seconds waited_;
};

}  // namespace plumbline::training
