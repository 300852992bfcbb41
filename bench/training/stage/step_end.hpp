// The end of a step: the rest of the reductions, gradient clipping, the parameter update.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

class StepEnd {
 public:
  explicit StepEnd(RankResources& rank);

  /// ARG: over the data ranks, and over the two copies of bidirectional schedules.
  void reduce_gradients();
  /// ARE: tied embeddings whose copies are on two ranks.
  void reduce_embedding();
  /// OPT: the gradients are read only. One that is not finite: nothing is updated.
  void update();
  /// So many updates have been made.
  void resume_after(std::int64_t updates) { updates_ = updates; }
  /// Gradient norm of the last step, before clipping, without the loss scale, over the whole model.
  double gradient_norm() const { return gradient_norm_; }

 private:
  void reduce_between_copies();
  void reduce_shared_kv_heads();
  void reduce_head_norms();
  void reduce_replicated_vectors();
  void reduce_adapters();
  /// Squared sums of gradients, unit by unit.
  std::vector<NumberSum> squared_sums() const;
  NumberSum squared_sum_of_unit(const StageEntry& stage, int unit) const;
  NumberSum squared_sum_of_vectors(const StageEntry& stage) const;
  bool over_world() const;
  double global_gradient_norm() const;
  void update_vectors(double gradient_scale) const;
  void update_unit(const StageEntry& stage, int unit_of_stage, double gradient_scale) const;
  void gather_values() const;
  void update_expert_biases() const;
  Matrix stage_vectors(const StageEntry& stage, std::int64_t count) const;

  RankResources& rank_;
  std::int64_t updates_ = 0;
  double gradient_norm_ = 0;
};

}  // namespace plumbline::training
