#include "analysis/search/evaluator.hpp"

#include <utility>

#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "core/base/error.hpp"

namespace plumbline {

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

const SearchSchedules::Entry* Evaluator::schedule_of(const SearchKeys& keys) {
  const SearchKeys& last = last_keys_;
  const bool same = known_ != nullptr && keys.schedule == last.schedule && keys.pipeline == last.pipeline &&
                    keys.data == last.data && keys.context == last.context &&
                    keys.micro_batch == last.micro_batch && keys.chunks == last.chunks &&
                    keys.vocabulary == last.vocabulary;
  if (!same) {
    known_ = schedules_.find(keys, config_);
    last_keys_ = keys;
  }
  return known_;
}

std::optional<Evaluator::Bounds> Evaluator::bounds(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys);
  if (entry == nullptr) return std::nullopt;
  const StepModel model(config_, entry->step.once, software_);
  const StageKinds& kinds = model.kinds;
  std::vector<StageMemo::Stage*> stages;
  std::vector<StageProfiles*> profiles;
  stages.reserve(kinds.first_stage.size());
  profiles.reserve(kinds.first_stage.size());
  for (const std::size_t stage : kinds.first_stage) {
    stages.push_back(&memo_.stage(kinds.shapes[stage]));
    profiles.push_back(&stages.back()->memory);
  }
  const MemoryPrediction memory = predict_memory(model, entry->step, entry->memory, profiles);
  const Costs costs = bounding_costs(*entry, kinds, stages);
  const auto device = device_memory_of(config_, entry->channels, hardware_, memory, software_);
  return Bounds{memory.peak, entry->bound.of(costs), fit_of(config_, hardware_, memory, device).fits};
}

/// Costs none of which exceeds those that predict() simulates.
Costs Evaluator::bounding_costs(const SearchSchedules::Entry& entry, const StageKinds& kinds,
                                const std::vector<StageMemo::Stage*>& stages) {
  Load load = least_load(config_, hardware_, software_);
  for (std::size_t kind = 0; kind < stages.size(); ++kind)
    memo_.passes(*stages[kind], kinds.shapes[kinds.first_stage[kind]], entry.present, load);
  Costs costs;
  costs.stages.reserve(kinds.shapes.size());
  for (const std::size_t kind : kinds.of_stage) costs.stages.push_back(stages[kind]->passes->costs);
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

Candidate Evaluator::predicted(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedule_of(keys);
  const Prediction prediction = predict(config_, entry->step, hardware_, software_);
  return {keys,
          prediction.memory.peak,
          prediction.time,
          prediction.fit,
          prediction.device ? prediction.device->fullest().total() : Bytes{},
          prediction.throughput};
}

}  // namespace plumbline
