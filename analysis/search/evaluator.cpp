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

/// Takes from another shape of the step the topics that ZeRO stage and type of gradients decide.
void take_sharding(const StageShape& from, StageShape& shape) {
  shape.sharding = from.sharding;
  shape.overlap = from.overlap;
  shape.numerics = from.numerics;
  shape.expert = from.expert;
}

/// The kind of stage with most of the model's layers.
std::size_t largest_kind(const StageKinds& kinds) {
  std::vector<std::int64_t> layers(kinds.first_stage.size());
  for (std::size_t stage = 0; stage < kinds.of_stage.size(); ++stage)
    layers[kinds.of_stage[stage]] += kinds.shapes[stage].layers;
  return static_cast<std::size_t>(std::max_element(layers.begin(), layers.end()) - layers.begin());
}

/// The lesser of two profiles at its fullest, with what the first one leaves.
ActionProfile lesser(const StageProfiles::Entry& first, const StageProfiles::Entry& second) {
  ActionProfile profile = first.profile;
  if (second.peak_total < first.peak_total) profile.peak = second.profile.peak;
  return profile;
}

/// Both ends of a pipeline: mostly one of them is the fullest rank.
std::vector<int> ends_of(const StageKinds& kinds) {
  const auto last = static_cast<int>(kinds.of_rank.size()) - 1;
  if (kinds.of_rank.back() == kinds.of_rank.front()) return {0};
  return {0, last};
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

Bytes Evaluator::least_peak(const SearchSchedules::Entry& entry, const StepModel& model) {
  const std::vector<StageProfiles*> profiles = profiles_of(stages_of(model.kinds));
  Bytes peak;
  for (const int rank : ends_of(model.kinds))
    peak = std::max(peak, predict_rank_memory(model, entry.step, entry.memory, profiles, rank).peak.total());
  return peak;
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

Bytes Evaluator::working(const SearchSchedules::Entry& entry, StepModel& model, int rank, int groups) {
  StageKinds& kinds = model.kinds;
  const double contention = collective_contention(config_, hardware_, software_);
  std::vector<StageProfiles> profiles(kinds.first_stage.size());
  for (const MemoryPlan::Item& item : entry.memory.ranks[static_cast<std::size_t>(rank)].items) {
    const ActionType type = item.action.type;
    StageProfiles& known = profiles[kinds.of_stage[item.action.stage]];
    if (known.has(type, item.with_extra)) continue;
    if (ends_step(type)) {  // takes less on a rank with fewer states
      known.add(type, item.with_extra, ActionProfile());
      continue;
    }
    StageShape& shape = kinds.shapes[item.action.stage];
    const auto with_groups = [&](int layers) {
      shape.recomputation.layers = layers;
      return memo_.stage(shape, contention).memory.of(shape, type, item.with_extra);
    };
    const StageProfiles::Entry large = with_groups(groups);
    known.add(type, item.with_extra, groups == 1 ? large.profile : lesser(large, with_groups(1)));
  }
  std::vector<StageProfiles*> all;
  all.reserve(profiles.size());
  for (StageProfiles& each : profiles) all.push_back(&each);
  const RankMemory memory = predict_rank_memory(model, entry.step, entry.memory, all, rank);
  constexpr Bytes kRounding{4096};  // parts of bytes that larger groups round otherwise
  return memory.peak.total() - memory.held.total() - kRounding;
}

std::optional<Evaluator::Floor> Evaluator::floor(const SearchFamily& family) {
  SearchKeys keys = family.keys;
  keys.half_gradients = family.halves;
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys, false);
  if (entry == nullptr) return std::nullopt;
  StepModel model(config_, entry->step.once, software_);
  StageKinds& kinds = model.kinds;
  Floor floor;
  const std::size_t kind = largest_kind(kinds);
  const StageShape& shape = kinds.shapes[kinds.first_stage[kind]];
  StageMemo::Stage& stage = memo_.stage(shape, collective_contention(config_, hardware_, software_));
  Costs costs;
  costs.stages.resize(kinds.shapes.size());
  fill_passes(*entry, shape, stage);
  for (std::size_t i = 0; i < kinds.of_stage.size(); ++i)
    if (kinds.of_stage[i] == kind) costs.stages[i] = stage.passes->costs;
  floor.at_least = entry->bound.of(costs, longer_than(*entry));
  const Bytes work = working(*entry, model, 0, family.groups);
  std::vector<StageShape> held = kinds.on_rank(0);
  std::optional<Bytes> least;
  for (const int zero : family.zeros()) {
    if (zero != keys.zero) {
      SearchKeys sharded = keys;
      sharded.zero = zero;
      set_keys(sharded, config_);
      const StageShape common = common_shape(config_, software_);
      for (StageShape& each : held) take_sharding(common, each);
    }
    const Bytes bytes = held_bytes(held, config_).total();
    if (!least || bytes < *least) least = bytes;
  }
  floor.peak = *least + work;
  return floor;
}

std::optional<Evaluator::FamilyBounds> Evaluator::bounds(const SearchFamily& family,
                                                         const std::function<bool(Bytes)>& open) {
  set_keys(family.keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(family.keys, false);
  if (entry == nullptr) return std::nullopt;
  StepModel model(config_, entry->step.once, software_);
  StageKinds& kinds = model.kinds;
  const std::vector<int> ends = ends_of(kinds);
  FamilyBounds bounds;
  std::vector<Bytes> work(ends.size());  // of the ranks at both ends, with this ZeRO stage
  visit_group(family, 1, [&](const SearchKeys& variant) {
    if (!variant.half_gradients && (variant.zero == family.keys.zero || variant.zero >= 2)) {
      SearchKeys smallest = variant;
      smallest.half_gradients = family.halves;
      take(smallest, model);
      for (std::size_t i = 0; i < ends.size(); ++i) work[i] = working(*entry, model, ends[i], family.groups);
    }
    take(variant, model);
    Bytes peak;
    for (std::size_t i = 0; i < ends.size(); ++i)
      peak = std::max(peak, held_bytes(kinds.on_rank(ends[i]), config_).total() + work[i]);
    bounds.peaks.push_back(peak);
  });
  if (!open(bounds.peak())) return std::nullopt;
  std::array<Seconds, 2> passes;  // of both types of gradients
  visit_group(family, 1, [&](const SearchKeys& variant) {
    Seconds& of_type = passes[variant.half_gradients ? 1 : 0];
    if (variant.zero == family.keys.zero) {
      take(variant, model);
      of_type = entry->bound.of(pass_costs(*entry, kinds, stages_of(kinds)), longer_than(*entry));
    }
    bounds.steps.push_back(of_type);
  });
  return bounds;
}

void Evaluator::fill_passes(const SearchSchedules::Entry& entry, const StageShape& shape,
                            StageMemo::Stage& stage) {
  const Load load = least_load(config_, hardware_, software_);
  if (!shape.mixture() || shape.traits.own_lists) {
    memo_.passes(stage, shape, entry.present, load);
    return;
  }
  // More rows may take less time by measured products: a bound has the prediction's.
  StageShape uneven = shape;
  set_uneven_load(uneven_load(config_), {&uneven, 1});
  memo_.passes(stage, uneven, entry.present, load);
}

Costs Evaluator::pass_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                            const std::vector<StageMemo::Stage*>& stages) {
  for (std::size_t kind = 0; kind < stages.size(); ++kind)
    fill_passes(entry, kinds.shapes[kinds.first_stage[kind]], *stages[kind]);
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
