#include "analysis/work/routing/routed_traffic.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/operator_list.hpp"

namespace plumbline {

namespace {

/// Adds `sign` times the row-dependent traffic of one action: exchanges with the ranks of experts, and the
/// tensor ranks' sums of the weights' gradients.
void add_rows(const StageShape& shape, ActionType type, std::int64_t sign, Traffic& traffic) {
  for (const OperatorCall& call : calls_of(work_of(shape, type))) {
    const bool exchanges = call.is(CallKind::all_to_all) && call.among(Group::expert);
    const bool reduces = call.is(CallKind::all_reduce) && call.among(Group::tensor);
    if (!exchanges && !reduces) continue;
    GroupTraffic& group = traffic.of(call.collective()->group);
    group.calls += sign * call.count;  // of no rows there is none
    (exchanges ? group.exchanged : group.all_reduced) += call.bytes() * (sign * call.count);
  }
}

/// Adds the rows of one model's actions of these types; `traffic`: that of an even routing.
void take_rows(const Schedule& schedule, const std::vector<StageShape>& shapes, int pipeline,
               std::initializer_list<ActionType> types, const RoutedRows& rows, Traffic& traffic) {
  for (const Action& action : schedule.actions[static_cast<std::size_t>(pipeline)]) {
    if (std::find(types.begin(), types.end(), action.type) == types.end()) continue;
    const StageShape& even = shapes[action.stage];
    if (!even.depends_on_routing()) continue;
    add_rows(even, action.type, -1, traffic);
    add_rows(rows.in_microbatch(even, action.microbatch), action.type, 1, traffic);
  }
}

constexpr std::initializer_list<ActionType> kOfModel = {ActionType::forward, ActionType::backward,
                                                        ActionType::backward_input};

}  // namespace

Traffic predict_traffic(const RunConfig& config, const Schedule& schedule, int world_rank,
                        const RoutedRows& rows, const RoutedRows* teacher) {
  const StepModel model(config, schedule);
  Traffic traffic = predict_traffic(model, schedule)[static_cast<std::size_t>(world_rank)];
  const int pipeline = model.layout.coordinates(world_rank).pipeline;
  take_rows(schedule, model.shapes(), pipeline, kOfModel, rows, traffic);
  if (teacher != nullptr)
    take_rows(schedule, model.teachers, pipeline, {ActionType::teacher_forward}, *teacher, traffic);
  return traffic;
}

std::vector<Traffic> predict_traffic(const RunConfig& config, const Schedule& schedule,
                                     std::span<const RoutedTokens> routing,
                                     std::span<const RoutedTokens> teacher) {
  const StepModel model(config, schedule);
  std::optional<RunConfig> taught_config;
  std::optional<StepModel> evaluated;
  if (!teacher.empty()) {
    taught_config = evaluated_teacher(config);
    evaluated.emplace(*taught_config, schedule);
  }
  std::vector<Traffic> traffic = predict_traffic(model, schedule);
  const Layout& layout = model.layout;
  for (int sender = 0; sender < layout.senders(); ++sender) {
    const RoutedRows rows(model, routing, sender);
    std::optional<RoutedRows> taught;
    if (evaluated) taught.emplace(*evaluated, teacher, sender);
    for (int rank = 0; rank < layout.world(); ++rank) {
      const Coordinates at = layout.coordinates(rank);
      if (layout.sender(at) != sender) continue;
      Traffic& of_rank = traffic[static_cast<std::size_t>(rank)];
      take_rows(schedule, model.shapes(), at.pipeline, kOfModel, rows, of_rank);
      if (taught)
        take_rows(schedule, model.teachers, at.pipeline, {ActionType::teacher_forward}, *taught, of_rank);
    }
  }
  return traffic;
}

}  // namespace plumbline
