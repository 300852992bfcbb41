#include "analysis/cluster/pipeline_time.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace plumbline::cluster {
namespace {

constexpr std::uint8_t kFirst = 0;
constexpr std::uint8_t kMiddle = 1;
constexpr std::uint8_t kLast = 2;

double forward_and_backward(const StageCosts& stage) {
  return stage.forward.value + stage.backward.value;
}

/// The shortest pass that ends with a message.
double shortest_sender(const StageKinds& stages) {
  double shortest = stages.middle.forward.value;
  for (const StageCosts* stage : {&stages.first, &stages.middle, &stages.last}) {
    shortest = std::min({shortest, stage->forward.value, stage->backward.value, stage->backward_input.value});
  }
  return shortest;
}

PipelinePlan::Held held_by(const Schedule& schedule, int rank) {
  PipelinePlan::Held result;
  double kept = 0;
  double freed = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    if (action.type == ActionType::forward) ++kept, ++freed;
    result.kept = std::max(result.kept, kept);
    result.freed = std::max(result.freed, freed);
    if (action.type == ActionType::backward) --kept, --freed;
    if (action.type == ActionType::backward_input) --freed;
    if (action.type == ActionType::backward_weight) --kept;
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] != rank) continue;
    ++result.chunks;
    result.first = result.first || schedule.first_of_route(stage);
    result.last = result.last || schedule.last_of_route(stage);
  }
  return result;
}

PlanOptions options_of(bool links) {
  PlanOptions options;
  options.links = links;
  return options;
}

}  // namespace

std::optional<double> exact_pipeline_seconds(std::string_view schedule, int ranks, int microbatches,
                                             const StageKinds& stages) {
  const double last = forward_and_backward(stages.last);
  if (ranks == 1) return microbatches * last;
  const double c = stages.message;
  const bool gpipe = schedule == "gpipe";
  if (!gpipe && schedule != "1f1b") return std::nullopt;
  const bool with_middle = ranks > 2;
  const auto slower = [&](const StageCosts& stage) {
    if (!gpipe) return forward_and_backward(stage) + 2 * c > last;
    return stage.forward > stages.last.forward || stage.backward > stages.last.backward;
  };
  if (slower(stages.first) || (with_middle && slower(stages.middle))) return std::nullopt;
  if (gpipe && (c > stages.last.forward.value || c > stages.last.backward.value)) return std::nullopt;
  return forward_and_backward(stages.first) + (ranks - 2) * forward_and_backward(stages.middle) +
         2 * (ranks - 1) * c + microbatches * last;
}

PipelinePlan::PipelinePlan(const Schedule& schedule, bool links)
    : plan_(schedule, options_of(links)), fused_(plan_), stages_per_route_(schedule.stages_per_route()) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    kinds_.push_back(schedule.first_of_route(stage) ? kFirst
                                                    : (schedule.last_of_route(stage) ? kLast : kMiddle));
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) held_.push_back(held_by(schedule, rank));
}

double PipelinePlan::seconds(const StageKinds& stages, Costs& costs, SweepTimes& times) const {
  costs.stages.resize(kinds_.size());
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    costs.stages[i] =
        kinds_[i] == kMiddle ? stages.middle : (kinds_[i] == kFirst ? stages.first : stages.last);
  }
  costs.transfer.value = stages.message;
  const std::vector<SimulationPlan::Price> prices = plan_.prices(costs);
  if (fused_.usable() && stages.message <= shortest_sender(stages)) {
    return seconds_of(
               fused_.makespan(prices, ticks_of({stages.message}, "message"), times.ready, times.clock))
        .value;
  }
  sweep(plan_, prices, times);
  return seconds_of(*std::max_element(times.clock.begin(), times.clock.begin() + plan_.ranks())).value;
}

const PipelinePlan* PipelinePlans::plan(const ScheduleNeed& need, int microbatches, bool links,
                                        std::string& refused) {
  const Key key{need.name, need.pipeline, microbatches, need.chunks, static_cast<int>(need.vocabulary),
                links};
  const auto [entry, fresh] = plans_.try_emplace(key);
  if (fresh) {
    ScheduleNeed sized = need;
    sized.microbatches = microbatches;
    Costs equal;
    equal.stages.assign(
        static_cast<std::size_t>(need.pipeline) * static_cast<std::size_t>(std::max(need.chunks, 1)),
        StageCosts{{1}, {2}, {1}, {1}, {}, {0.25}, {0.25}, {0.05}, {0.05}});
    try {
      entry->second = std::make_unique<PipelinePlan>(make_(sized, equal), links);
    } catch (const InputError& error) {
      refused = error.what();
    }
  }
  if (entry->second == nullptr && refused.empty()) refused = "the schedule does not allow these sizes";
  return entry->second.get();
}

const PipelinePlans::Entry& PipelinePlans::find(const ScheduleNeed& need, bool links) {
  const std::lock_guard lock(mutex_);
  const Key key{need.name, need.pipeline, need.microbatches, need.chunks, static_cast<int>(need.vocabulary),
                links};
  const auto [found, fresh] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (!fresh) return entry;
  // Every schedule here repeats itself once the pipeline is full; whole groups of P and an even number keep
  // interleaved and bidirectional ones legal.
  const int group = 2 * need.pipeline;
  const int rest = need.microbatches % group;
  const int limit = 3 * group;
  if (need.microbatches <= limit) {
    entry.exact = plan(need, need.microbatches, links, entry.refused);
    return entry;
  }
  entry.shorter_microbatches = group + rest;
  entry.longer_microbatches = 2 * group + rest;
  entry.shorter = plan(need, entry.shorter_microbatches, links, entry.refused);
  if (entry.shorter != nullptr) entry.longer = plan(need, entry.longer_microbatches, links, entry.refused);
  return entry;
}

double pipeline_seconds(const PipelinePlans::Entry& entry, int microbatches, const StageKinds& stages,
                        Costs& costs, SweepTimes& times) {
  if (entry.exact != nullptr) return entry.exact->seconds(stages, costs, times);
  const double shorter = entry.shorter->seconds(stages, costs, times);
  const double longer = entry.longer->seconds(stages, costs, times);
  return longer + (longer - shorter) * (microbatches - entry.longer_microbatches) /
                      (entry.longer_microbatches - entry.shorter_microbatches);
}

}  // namespace plumbline::cluster
