#include "analysis/work/routing/routed_traffic.hpp"

#include "analysis/work/operator_list.hpp"

namespace plumbline {

Traffic predict_traffic(const RunConfig& config, const Schedule& schedule, int world_rank,
                        const RoutedRows& rows) {
  using enum ActionType;
  Traffic traffic = predict_traffic(config, schedule)[static_cast<std::size_t>(world_rank)];
  const std::vector<StageShape> shapes = stage_shapes(config, schedule);
  if (shapes.front().gathers_tokens()) return traffic;  // as much whatever the routing
  GroupTraffic exchanges;
  const auto pipeline = static_cast<std::size_t>(config.layout().coordinates(world_rank).pipeline);
  for (const Action& action : schedule.actions[pipeline]) {
    if (action.type != forward && action.type != backward && action.type != backward_input) continue;
    const StageShape shape = rows.in_microbatch(shapes[action.stage], action.microbatch);
    for (const OperatorCall& call : calls_of(work_of(shape, action.type))) {
      if (call.kind != CallKind::all_to_all || call.group != Group::expert) continue;
      exchanges.calls += call.count;
      exchanges.exchanged += call.bytes() * call.count;
    }
  }
  traffic.of(Group::expert) = exchanges;
  return traffic;
}

}  // namespace plumbline
