#include "analysis/memory/host_memory.hpp"

#include <algorithm>
#include <span>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

std::vector<Bytes> offloaded_bytes(const StageShape& shape) {
  std::vector<Bytes> bytes;
  if (shape.recomputation.offloaded == 0) return bytes;
  if (!shape.traits.own_lists) {
    for (const AlikeLayers& alike : shape.alike_layers())
      bytes.insert(bytes.end(), static_cast<std::size_t>(alike.layers),
                   {framework_offloaded_bytes(shape.like(alike.kind))});
    bytes.resize(static_cast<std::size_t>(shape.recomputation.offloaded));
    return bytes;
  }
  ReductionUnderWay none;
  Replay replay;
  StageReplay stage(shape, ActionType::forward, {}, none, replay);
  for (std::int64_t layer = 0; layer < shape.recomputation.offloaded; ++layer)
    bytes.push_back({stage.kept_until_backward(layer)});
  return bytes;
}

namespace {

Bytes all_offloaded(const StageShape& shape) {
  Bytes sum;
  for (const Bytes layer : offloaded_bytes(shape)) sum += layer;
  return sum;
}

}  // namespace

Bytes host_peak(const std::vector<StageShape>& shapes, const RepeatedSchedule& step, int rank,
                const RoutedRows* rows) {
  std::vector<Bytes> of_stage;
  of_stage.reserve(shapes.size());
  for (const StageShape& shape : shapes) of_stage.push_back(all_offloaded(shape));
  const auto of = [&](const Action& action) {
    if (rows == nullptr || of_stage[action.stage].value == 0) return of_stage[action.stage];
    return all_offloaded(rows->in_microbatch(shapes[action.stage], action.microbatch));
  };
  Bytes now, most;
  // A forward's copies all come before anything goes, and a backward's go one by one.
  const auto walk = [&](std::span<const Action> actions) {
    for (const Action& action : actions) {
      const bool forward = action.type == ActionType::forward;
      const bool backward = action.type == ActionType::backward || action.type == ActionType::backward_input;
      if (!forward && !backward) continue;
      const Bytes bytes = of(action);
      if (forward) now += bytes;
      most = std::max(most, now);
      if (backward) now -= bytes;
    }
  };
  const auto at = static_cast<std::size_t>(rank);
  const std::span<const Action> actions = step.once.actions[at];
  if (!step.repeats()) {
    walk(actions);
    return most;
  }
  const RepeatedSchedule::Period period = step.periods[at];
  walk(actions.first(period.first));
  const Bytes before = now;
  walk(actions.subspan(period.first, period.length));
  if (step.copies > 2) now += (step.copies - 2) * (now - before);
  walk(actions.subspan(period.first, period.length));
  walk(actions.subspan(period.end()));
  return most;
}

}  // namespace plumbline
