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
      Schedule schedule = make_(config);
      LowerBound bound(schedule);
      found->second = std::make_unique<Entry>(Entry{std::move(schedule), std::move(bound)});
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
  const MemoryPrediction memory = predict_memory(config_, entry->schedule, MemoryDetail::peaks, framework_);
  const Costs costs = bounding_costs(config_, entry->schedule, hardware_, framework_);
  return Bounds{memory.peak, entry->bound.of(costs), fits(config_, entry->schedule, hardware_, memory)};
}

Candidate Evaluator::predicted(const SearchKeys& keys) {
  set_keys(keys, config_);
  const SearchSchedules::Entry* entry = schedules_.find(keys, config_);
  const Prediction prediction = predict(config_, entry->schedule, hardware_, framework_);
  return {keys, prediction.memory.peak, prediction.time};
}

}  // namespace plumbline
