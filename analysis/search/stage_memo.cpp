#include "analysis/search/stage_memo.hpp"

#include <utility>

#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/host_copies.hpp"
#include "analysis/time/host_lane.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/time_phases.hpp"
#include "analysis/work/framework_list.hpp"

namespace plumbline {
namespace {

/// The shape without its place: a stage's position changes nothing in what it computes.
StageShape placeless(StageShape shape) {
  shape.place.stage = shape.place.route = 0;
  return shape;
}

void mix(std::size_t& hash, std::int64_t value) {
  hash = (hash ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15ULL;
  hash ^= hash >> 29U;
}

bool of_vocabulary(ActionType type) {
  return type >= ActionType::vocab_forward && type <= ActionType::input_backward;
}

/// The shape without what an action of this type does not depend on: all shapes that this makes equal take
/// the same time.
StageShape seen_by(ActionType type, StageShape shape) {
  shape.place.stage = shape.place.route = 0;
  shape.place.previous_here = shape.place.next_here = false;
  shape.overlap.interleaved = shape.overlap.aligned_gathers = shape.overlap.gathers_in_update = false;
  shape.overlap.receives_ahead = false;
  shape.overlap.bucket_elements = 0;
  if (type == ActionType::forward) shape.numerics.grad_type = DType::fp32;
  // Passes gather and scatter nothing over the ranks that share gradients and states.
  if (shape.sharding.zero == 0 && !shape.moe.global_balance) {
    shape.sharding.data = shape.sharding.state_shards = shape.sharding.optimizer_instances = 1;
    shape.expert.copies = shape.expert.state_shards = 1;
  }
  if (!shape.vocabulary.split) return shape;
  if (of_vocabulary(type)) {
    shape.layers = 0;
    shape.kinds.clear();
    shape.recomputation = {};
    shape.expert = {};
    shape.moe = {};
  } else if (shape.ends.prediction_modules == 0 && shape.sharding.zero == 0) {
    shape.vocabulary = {};
    shape.vocabulary.split = true;
    shape.ends.vocab = shape.ends.outputs = 0;
  }
  return shape;
}

/// A further layer adds the same time as the one before: all are alike, none is recomputed with others, and
/// nothing is fetched ahead for them.
bool repeats_layers(const StageShape& shape) {
  const RecomputationShape& again = shape.recomputation;
  const bool groups = again.granularity == Recompute::full && again.layers != 1;
  return shape.layers > 2 && shape.kinds.empty() && !groups && again.offloaded == 0 &&
         !shape.host_states.in_passes() && shape.sharding.zero < 2;
}

Seconds total_of(const std::vector<OperatorCall>& calls, const HardwareProfile& hardware, const Load& load) {
  Seconds sum;
  for (const OperatorCall& call : calls) sum += time_of(call, hardware, load);
  return sum;
}

}  // namespace

std::size_t StageMemo::Hash::operator()(const Key& key) const {
  const StageShape& s = key.shape;
  std::size_t hash = 0;
  for (const std::int64_t value :
       {s.layers, s.stream.batch, std::int64_t{s.expert.ranks}, s.expert.rows, std::int64_t{s.cp.ranks},
        s.stream.rows, s.stream.tokens, s.ends.vocab, s.recomputation.layers})
    mix(hash, value);
  mix(hash, s.sharding.tensor + 64 * s.sharding.zero + 256 * static_cast<int>(s.recomputation.granularity) +
                1024 * static_cast<int>(s.numerics.grad_type) + 4096 * static_cast<int>(s.expert.dispatcher) +
                65536 * s.expert.tensor);
  mix(hash, (s.place.first ? 1 : 0) + (s.place.last ? 2 : 0) + (s.ends.shared_output ? 4 : 0) +
                (s.vocabulary.split ? 8 : 0) + (s.vocabulary.carries ? 16 : 0) +
                (s.vocabulary.two_barriers ? 32 : 0) + (s.sharding.sequence_parallel ? 64 : 0) +
                (s.place.previous_here ? 128 : 0) + (s.place.next_here ? 256 : 0));
  return hash;
}

void StageMemo::forget() {
  constexpr std::size_t kMostKept = 100'000;  // some 200 MB
  if (anywhere_.size() > kMostKept) anywhere_.clear();
  stages_.clear();
  passes_.clear();
  ends_.clear();
}

StageMemo::Stage& StageMemo::stage(const StageShape& shape, double contention) {
  const auto [found, fresh] = stages_.try_emplace({placeless(shape), contention});
  Stage& stage = found->second;
  if (!fresh) return stage;
  Key key = found->first;
  if (!key.shape.traits.own_lists) key.shape = shape_of_work(key.shape);
  stage.contention = contention;
  stage.passes = &passes_.try_emplace(std::move(key)).first->second;
  return stage;
}

const StageCosts& StageMemo::passes(const Stage& stage, const StageShape& shape, const ActionTypes& present,
                                    const Load& load) {
  Passes& passes = *stage.passes;
  for (const Phase& phase : kPhases) {
    const auto type = static_cast<std::size_t>(phase.type);
    if (!present[type] || passes.present[type] || (of_vocabulary(phase.type) && !shape.vocabulary.carries))
      continue;
    passes.present[type] = true;
    if (!repeats_layers(shape) || of_vocabulary(phase.type)) {
      passes.costs.*phase.cost = action_time(shape, stage.contention, phase, load);
      continue;
    }
    StageShape few = shape;
    few.layers = 1;
    const Seconds one = action_time(few, stage.contention, phase, load);
    few.layers = 2;
    const Seconds two = action_time(few, stage.contention, phase, load);
    passes.costs.*phase.cost = one + (two - one) * static_cast<double>(shape.layers - 1);
  }
  return passes.costs;
}

Seconds StageMemo::action_time(const StageShape& shape, double contention, const Phase& phase,
                               const Load& load) {
  Key key{seen_by(phase.type, shape), contention, load.layout};
  if (hardware_.accelerator() != nullptr) {
    key.layout = near_layout(load.layout, hardware_.accelerator()->constants.network.gpus_per_node);
  }
  Passes& passes = anywhere_[std::move(key)];
  const auto type = static_cast<std::size_t>(phase.type);
  if (!passes.present[type]) {
    passes.present[type] = true;
    passes.costs.*phase.cost = time_action(work_of(shape, phase.type), hardware_, load,
                                           host_copies(shape, phase.type, hardware_, load))
                                   .all;
  }
  return passes.costs.*phase.cost;
}

const StageCosts& StageMemo::step_end(std::vector<const Stage*> known, int routes,
                                      const std::function<HeldStages()>& held, const RunConfig& config,
                                      const Load& load) {
  const auto [found, fresh] = ends_.try_emplace({routes, std::move(known)});
  StageCosts& costs = found->second;
  if (!fresh) return costs;
  const HeldStages rank = held();
  const StageShape& any = rank.held.front();
  // Reductions that overlap with the backwards may hide.
  if (!any.overlap.grad_reduce || any.sharding.zero > 1)
    costs.reduce_gradients = total_of(step_reduction_calls(rank, config), hardware_, load);
  const auto updates = step_update_calls(rank, config);
  const UpdateWait waits = update_wait(rank, updates, hardware_, load);
  costs.optimizer = total_of(updates, hardware_, load) + waits.update + waits.gathered;
  return costs;
}

}  // namespace plumbline
