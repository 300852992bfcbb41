#include "analysis/work/operator_list.hpp"

#include <fmt/format.h>

namespace plumbline {

bool is_collective(CallKind kind) {
  return kind == CallKind::all_reduce || kind == CallKind::all_gather || kind == CallKind::reduce_scatter ||
         kind == CallKind::broadcast || kind == CallKind::reduce || kind == CallKind::ring_shift ||
         kind == CallKind::all_to_all;
}

std::string label_of(const OperatorCall& call) {
  if (call.kind == CallKind::gemm) {
    return fmt::format("{} {}{}", call.label, name_of(call.pass),
                       call.fp4   ? ", fp4"
                       : call.fp8 ? ", fp8"
                                  : "");
  }
  return call.label;
}

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
    if (part.gather.elements > 0) add(part.gather, times[i]);
    if (part.expert_gather.elements > 0) add(part.expert_gather, times[i]);
    for (const OperatorCall& call : part.calls) add(call, times[i]);
    if (part.scatter.elements > 0) {
      add(part.scatter, times[i]);
      if (part.between.elements > 0) add(part.between, times[i]);
      if (part.accumulate.elements > 0) add(part.accumulate, times[i]);
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

double pairs_of(const OperatorCall& call) {
  // Pairs of the first `queries` of a sequence: all earlier keys except those that are not given.
  const auto up_to = [&](std::int64_t queries) {
    if (queries <= 0) return 0.0;
    const auto all = [](std::int64_t count, std::int64_t window, std::int64_t prefix) {
      return count > 0 ? static_cast<double>(count) * keys_per_query(count, window, prefix) : 0;
    };
    const double seen = all(queries, call.window, call.prefix);
    if (call.keys == 0 || queries <= call.keys) return seen;
    const std::int64_t later = queries - call.keys;  // keys that those queries would have besides
    return seen - all(later, call.window, 0);
  };
  return up_to(call.past + call.tokens) - up_to(call.past);
}

Flops flops_of(const OperatorCall& call) {
  const auto count = static_cast<double>(call.count);
  const auto tokens = static_cast<double>(call.tokens);
  const auto out = static_cast<double>(call.out);
  if (call.kind == CallKind::gemm) {
    const auto batch = static_cast<double>(call.batch);
    return {call.share * count * batch * 2 * tokens * out * static_cast<double>(call.in)};
  }
  if (call.kind == CallKind::attention) {
    // Scores and their product with the values: each 2·d FLOPs per head and visible (query, key) pair.
    // Visible are half of all pairs, a prefix's besides, or those of a window; kernels skip pairs outside it
    // like those above the diagonal. The backward recomputes the scores and has four more products of that
    // size: 2.5 times the forward.
    const double forward = 4 * pairs_of(call) * out;
    return {call.share * count * static_cast<double>(call.elements) * forward * (call.backward ? 2.5 : 1)};
  }
  return {0};
}

}  // namespace plumbline
