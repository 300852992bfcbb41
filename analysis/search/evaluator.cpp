#include "analysis/search/evaluator.hpp"

#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/time/time_model.hpp"
#include "core/base/error.hpp"

namespace plumbline {

const SearchSchedules::Entry* SearchSchedules::find(const SearchKeys& keys, const RunConfig& config) {
  const std::lock_guard lock(mutex_);
  const Key key{
      keys.schedule, keys.pipeline, config.microbatches(), keys.chunks, static_cast<int>(keys.vocabulary),
      keys.data > 1};
  const auto [found, fresh] = entries_.try_emplace(key);
  if (fresh) {
    try {
      RepeatedSchedule step = make_(config);
      LowerBound bound(step);
      found->second = std::make_unique<Entry>(Entry{std::move(step), std::move(bound), {}});
      found->second->present = types_in(found->second->step.once);
    } catch (const InputError& error) {
      if (refused_.empty()) refused_ = error.what();
    }
  }
  return found->second.get();
}

std::string SearchSchedules::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

std::optional<Evaluator::Bounds> Evaluator::bounds(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedules_.find(keys, config_);
  if (entry == nullptr) return std::nullopt;
  const MemoryPrediction memory = predict_memory(config_, entry->step, MemoryDetail::peaks, framework_);
  const Costs costs = bounding_costs(*entry);
  return Bounds{memory.peak, entry->bound.of(costs), fits(config_, entry->step.once, hardware_, memory)};
}

/// Costs of which none is larger than those that predict() simulates.
Costs Evaluator::bounding_costs(const SearchSchedules::Entry& entry) {
  const Schedule& schedule = entry.step.once;
  const std::vector<StageShape> shapes = stage_shapes(config_, schedule, framework_);
  Load load;
  load.layout = config_.layout();
  load.collective_contention = collective_contention(config_, hardware_, framework_);
  Costs costs;
  for (const StageShape& shape : shapes) costs.stages.push_back(memo_.passes(shape, entry.present, load));
  load.busy = load.layout.world() > 1 ? 1 : 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const HeldStages held = stages_on_rank(config_, schedule, shapes, rank);
    if (held.held.empty()) continue;
    const StageCosts& end = memo_.step_end(held, config_, load);
    StageCosts& lowest = costs.stages[static_cast<std::size_t>(held.held.front().stage)];
    lowest.reduce_gradients = end.reduce_gradients;
    lowest.optimizer = end.optimizer;
  }
  return costs;
}

Candidate Evaluator::predicted(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedules_.find(keys, config_);
  const Prediction prediction = predict(config_, entry->step, hardware_, framework_);
  return {keys, prediction.memory.peak, prediction.time};
}

}  // namespace plumbline
