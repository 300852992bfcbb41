#include "analysis/work/operator_list.hpp"

namespace plumbline {

std::vector<OperatorCall> calls_of(const ActionWork& work) {
  std::vector<std::int64_t> times(work.parts.size(), 0);
  for (const ActionWork::Run& run : work.runs) times[run.part] += run.repeat;
  std::vector<OperatorCall> calls;
  const auto add = [&](OperatorCall call, std::int64_t count) {
    call.count *= count;
    if (call.count > 0) calls.push_back(call);
  };
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    const UnitWork& part = work.parts[i];
    if (part.gather.elements() > 0) add(part.gather, times[i]);
    if (part.expert_gather.elements() > 0) add(part.expert_gather, times[i]);
    for (const OperatorCall& call : part.calls) add(call, times[i]);
    if (part.scatter.elements() > 0) {
      add(part.scatter, times[i]);
      if (part.between.elements() > 0) add(part.between, times[i]);
      if (part.accumulate.elements() > 0) add(part.accumulate, times[i]);
    }
  }
  return calls;
}

std::vector<OperatorCall> forward_calls(const StageShape& shape) {
  return calls_of(work_of(shape, ActionType::forward));
}
std::vector<OperatorCall> backward_calls(const StageShape& shape) {
  return calls_of(work_of(shape, ActionType::backward));
}
std::vector<OperatorCall> backward_input_calls(const StageShape& shape) {
  return calls_of(work_of(shape, ActionType::backward_input));
}
std::vector<OperatorCall> backward_weight_calls(const StageShape& shape) {
  return calls_of(work_of(shape, ActionType::backward_weight));
}

HeldStages stages_on_rank(const RunConfig& config, const Schedule& schedule,
                          const std::vector<StageShape>& shapes, int rank) {
  HeldStages on_rank;
  on_rank.layout = config.layout();
  for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
    if (schedule.rank_of_stage[stage] != rank) continue;
    on_rank.held.push_back(shapes[stage]);
    if (stage < static_cast<std::size_t>(schedule.stages_per_route())) ++on_rank.of_first_route;
  }
  if (schedule.routes > 1 && rank != schedule.ranks - 1 - rank) on_rank.mirror = 2;
  const int first = schedule.rank_of_stage.front();
  const auto last = static_cast<std::size_t>(schedule.stages_per_route()) - 1;
  const int other = schedule.rank_of_stage[last];
  const bool tied_copy =
      shapes.front().ends.tied && !shapes.front().vocabulary.split && !shapes[last].ends.shared_output;
  on_rank.embedding_copy =
      (tied_copy || shapes[last].ends.embedding_copy) && first != other && (rank == first || rank == other);
  return on_rank;
}

}  // namespace plumbline
