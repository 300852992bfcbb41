#include "analysis/search/evaluator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "analysis/memory/memory_model.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/common_shape.hpp"
#include "analysis/time/processor_contention.hpp"
#include "analysis/time/stage/message_costs.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/routing/uneven_load.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Keys of a family's candidate that takes least memory beyond what it holds.
SearchKeys smallest_work(const SearchFamily& family) {
  SearchKeys keys = family.keys;
  keys.half_gradients = family.halves;
  return keys;
}

/// Takes from another shape of the step the topics that ZeRO stage and type of gradients decide.
void take_sharding(const StageShape& from, StageShape& shape) {
  shape.sharding = from.sharding;
  shape.overlap = from.overlap;
  shape.numerics = from.numerics;
  shape.expert = from.expert;
}

/// Memory that a rank takes at least beyond what it holds, with groups of `few` to `many` recomputed layers:
/// the inputs that the largest ones keep, the work of the smallest.
Bytes working_of(const SearchSchedules::Entry& entry, StepModel& model, int rank, int few, int many) {
  StageKinds& kinds = model.kinds;
  std::vector<StageProfiles> profiles(kinds.first_stage.size());
  const MemoryPlan::Rank& plan = entry.memory.ranks[static_cast<std::size_t>(rank)];
  for (const MemoryPlan::Item& item : plan.items) {
    const ActionType type = item.action.type;
    StageProfiles& known = profiles[kinds.of_stage[item.action.stage]];
    if (known.has(type, item.with_extra)) continue;
    if (ends_step(type)) {  // takes less on a rank with fewer states
      known.add(type, item.with_extra, ActionProfile());
      continue;
    }
    StageShape& shape = kinds.shapes[item.action.stage];
    shape.recomputation.layers = many;
    ActionProfile profile = action_profile(shape, type, item.with_extra);
    shape.recomputation.layers = few;
    if (few < many) {
      const ActionProfile other = action_profile(shape, type, item.with_extra);
      if (other.peak.total() < profile.peak.total()) profile.peak = other.peak;
    }
    known.add(type, item.with_extra, profile);
  }
  std::vector<StageProfiles*> all;
  all.reserve(profiles.size());
  for (StageProfiles& each : profiles) all.push_back(&each);
  for (const std::size_t stage : kinds.stages_held[static_cast<std::size_t>(rank)])
    kinds.shapes[stage].recomputation.layers = few;
  const RankMemory memory = predict_rank_memory(model, entry.step, entry.memory, all, rank);
  return memory.peak.total() - memory.held.total();
}

std::vector<StageProfiles*> profiles_of(const std::vector<StageMemo::Stage*>& stages) {
  std::vector<StageProfiles*> profiles;
  profiles.reserve(stages.size());
  for (StageMemo::Stage* stage : stages) profiles.push_back(&stage->memory);
  return profiles;
}

}  // namespace

SearchSchedules::Entry::Entry(RepeatedSchedule made)
    : step(std::move(made)),
      memory(memory_plan(step, false)),
      bound(step),
      present(types_in(step.once)),
      channels(channel_ends(step.once)) {}

const SearchSchedules::Entry* SearchSchedules::find(const SearchKeys& keys, const RunConfig& config) {
  const Key key{
      keys.schedule,
      keys.pipeline,
      config.microbatches(),
      keys.chunks,
      static_cast<int>(keys.vocabulary),
      config.parallel.copies() > 1 || (config.spreads_experts() && config.parallel.expert_copies() > 1)};
  Slot* slot = nullptr;
  {
    const std::lock_guard lock(mutex_);
    slot = &slots_[key];
  }
  std::call_once(slot->made, [&] {
    try {
      slot->entry = std::make_unique<const Entry>(make_(config));
    } catch (const InputError& error) {
      const std::lock_guard lock(mutex_);
      if (refused_.empty()) refused_ = error.what();
    }
  });
  return slot->entry.get();
}

std::string SearchSchedules::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

const SearchSchedules::Entry* SearchSchedules::find_short(const SearchKeys& keys, const RunConfig& config) {
  const int microbatches = config.microbatches();
  const int full = 2 * keys.pipeline;
  if (microbatches < full + keys.pipeline) return find(keys, config);
  RunConfig shorter = config;
  // As many are left over as in the whole schedule, so that its kind takes both numbers or neither.
  const int left = full + microbatches % keys.pipeline;
  shorter.batch.global_batch_size = config.batch.global_batch_size / microbatches * left;
  const Entry* entry = find(keys, shorter);
  return entry == nullptr || entry->bound.scales() ? entry : find(keys, config);
}

const SearchSchedules::Entry* Evaluator::schedule_of(const SearchKeys& keys, bool whole) {
  const SearchKeys& last = last_keys_;
  const bool same = known_ != nullptr && whole == whole_ && keys.schedule == last.schedule &&
                    keys.pipeline == last.pipeline && keys.data == last.data &&
                    keys.context == last.context && keys.micro_batch == last.micro_batch &&
                    keys.chunks == last.chunks && keys.vocabulary == last.vocabulary;
  if (!same) {
    known_ = whole ? schedules_.find(keys, config_) : schedules_.find_short(keys, config_);
    last_keys_ = keys;
    whole_ = whole;
  }
  return known_;
}

std::optional<Evaluator::Bounds> Evaluator::bounds(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys, true);
  if (entry == nullptr) return std::nullopt;
  const StepModel model(config_, entry->step.once, software_);
  const std::vector<StageMemo::Stage*> stages = stages_of(model.kinds);
  const MemoryPrediction memory = predict_memory(model, entry->step, entry->memory, profiles_of(stages));
  const auto device = device_memory_of(config_, entry->channels, hardware_, memory, software_);
  bounded_ = bounding_costs(*entry, model.kinds, stages);
  set_message_costs(config_, entry->step.once, software_, hardware_, model.any(),
                    least_load(config_, hardware_, software_), bounded_);
  Seconds at_least = entry->bound.of(bounded_);
  for (const LongestChain& chain : entry->chains) at_least = std::max(at_least, chain.of(bounded_));
  return Bounds{memory.peak, at_least, fit_of(config_, hardware_, memory, device).fits};
}

Seconds Evaluator::longest_chain() {
  const SearchSchedules::Entry& entry = *known_;
  if (entry.bound.pairs()) return {};
  const LongestChain chain(entry.step, bounded_);
  const Seconds longest = chain.of(bounded_);
  const bool known = std::any_of(entry.chains.begin(), entry.chains.end(),
                                 [&](const LongestChain& other) { return other.of(bounded_) >= longest; });
  if (!known) entry.chains.push_back(chain);
  return longest;
}

void Evaluator::take(const SearchKeys& keys, StepModel& model) {
  set_keys(keys, config_);
  const StageShape common = common_shape(config_, software_);
  for (StageShape& shape : model.kinds.shapes) {
    take_sharding(common, shape);
    shape.recomputation.layers = common.recomputation.layers;
  }
}

Seconds Evaluator::least_step(const SearchKeys& keys, const SearchSchedules::Entry& entry, StepModel& model) {
  take(keys, model);
  return entry.bound.of(bounding_costs(entry, model.kinds, stages_of(model.kinds)), longer_than(entry));
}

Bytes Evaluator::least_peak(const SearchKeys& keys, const SearchSchedules::Entry& entry,
                            const StepModel& model) {
  const std::vector<StageProfiles*> profiles = profiles_of(stages_of(model.kinds));
  const auto of = [&](int rank) {
    return predict_rank_memory(model, entry.step, entry.memory, profiles, rank).peak.total();
  };
  return std::max(of(0), of(keys.pipeline - 1));
}

double Evaluator::longer_than(const SearchSchedules::Entry& entry) const {
  return static_cast<double>(config_.microbatches()) / static_cast<double>(entry.step.microbatches);
}

std::vector<StageMemo::Stage*> Evaluator::stages_of(const StageKinds& kinds) {
  std::vector<StageMemo::Stage*> stages;
  stages.reserve(kinds.first_stage.size());
  const double contention = collective_contention(config_, hardware_, software_);
  for (const std::size_t stage : kinds.first_stage)
    stages.push_back(&memo_.stage(kinds.shapes[stage], contention));
  return stages;
}

std::optional<Evaluator::FamilyBounds> Evaluator::bounds(const SearchFamily& family) {
  const SearchKeys keys = smallest_work(family);
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys, false);
  if (entry == nullptr) return std::nullopt;
  StepModel model(config_, entry->step.once, software_);
  StageKinds& kinds = model.kinds;
  FamilyBounds bounds;
  for (const int rank : {0, keys.pipeline - 1}) {  // mostly one of them is the fullest
    const Bytes working = working_of(*entry, model, rank, 1, family.groups);
    if (working > bounds.working) {
      bounds.working = working;
      bounds.rank = rank;
    }
  }
  std::vector<StageShape> on_rank = kinds.on_rank(bounds.rank);
  std::array<Seconds, 2> least;  // of both types of gradients
  visit_group(family, 1, [&](const SearchKeys& variant) {
    set_keys(variant, config_);
    const StageShape common = common_shape(config_, software_);
    for (StageShape& shape : on_rank) take_sharding(common, shape);
    bounds.held.push_back(held_bytes(on_rank, config_).total());
    Seconds& passes = least[variant.half_gradients ? 1 : 0];
    if (variant.zero == family.zeros.front()) {
      for (const std::size_t stage : kinds.first_stage) take_sharding(common, kinds.shapes[stage]);
      passes = entry->bound.of(pass_costs(*entry, kinds, stages_of(kinds)), longer_than(*entry));
    }
    bounds.steps.push_back(passes);
  });
  return bounds;
}

std::vector<Bytes> Evaluator::working(const SearchFamily& family, const FamilyBounds& bounds) {
  if (family.groups == 1) return {bounds.working};
  const SearchKeys keys = smallest_work(family);
  set_keys(keys, config_);
  const SearchSchedules::Entry& entry = *schedule_of(keys, false);
  StepModel model(config_, entry.step.once, software_);
  std::vector<Bytes> working;
  for (int group = 1; group <= family.groups; ++group)
    working.push_back(working_of(entry, model, bounds.rank, group, group));
  return working;
}

Costs Evaluator::pass_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                            const std::vector<StageMemo::Stage*>& stages) {
  const Load load = least_load(config_, hardware_, software_);
  for (std::size_t kind = 0; kind < stages.size(); ++kind) {
    const StageShape& shape = kinds.shapes[kinds.first_stage[kind]];
    if (!shape.mixture() || shape.traits.own_lists) {
      memo_.passes(*stages[kind], shape, entry.present, load);
      continue;
    }
    // More rows may take less time by measured products: a bound has the prediction's.
    StageShape uneven = shape;
    set_uneven_load(uneven_load(config_), {&uneven, 1});
    memo_.passes(*stages[kind], uneven, entry.present, load);
  }
  Costs costs;
  costs.stages.reserve(kinds.shapes.size());
  for (const std::size_t kind : kinds.of_stage) costs.stages.push_back(stages[kind]->passes->costs);
  return costs;
}

/// Costs none of which exceeds those that predict() simulates.
Costs Evaluator::bounding_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                                const std::vector<StageMemo::Stage*>& stages) {
  Costs costs = pass_costs(entry, kinds, stages);
  Load load = least_load(config_, hardware_, software_);
  load.busy = load.layout.world() > 1 ? 1 : 0;
  std::vector<const StageCosts*> of_rank;
  of_rank.reserve(kinds.first_rank.size());
  for (const int rank : kinds.first_rank) {
    std::vector<const StageMemo::Stage*> held;
    held.reserve(kinds.stages_held[static_cast<std::size_t>(rank)].size());
    for (const std::size_t stage : kinds.stages_held[static_cast<std::size_t>(rank)])
      held.push_back(stages[kinds.of_stage[stage]]);
    of_rank.push_back(held.empty()
                          ? nullptr
                          : &memo_.step_end(
                                std::move(held), entry.step.once.routes,
                                [&] { return stages_on_rank(config_, entry.step.once, kinds.shapes, rank); },
                                config_, load));
  }
  for (std::size_t rank = 0; rank < kinds.of_rank.size(); ++rank) {
    const StageCosts* end = of_rank[kinds.of_rank[rank]];
    if (end == nullptr) continue;
    StageCosts& lowest = costs.stages[kinds.stages_held[rank].front()];
    lowest.reduce_gradients = end->reduce_gradients;
    lowest.optimizer = end->optimizer;
  }
  return costs;
}

Candidate Evaluator::predicted(const SearchKeys& keys, bool whole) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys, true);
  const Prediction prediction = predict(config_, entry->step, hardware_, software_, whole);
  return {keys,
          prediction.memory.peak,
          prediction.time,
          prediction.fit,
          prediction.device ? prediction.device->fullest().total() : Bytes{},
          prediction.throughput};
}

}  // namespace plumbline
