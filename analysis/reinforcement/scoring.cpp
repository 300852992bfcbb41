#include "analysis/reinforcement/scoring.hpp"

#include <algorithm>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/step/stage_shapes.hpp"

namespace plumbline {

Seconds scoring_time(const Prediction& step, const Schedule& schedule, std::int64_t microbatches) {
  std::vector<Seconds> of_rank(static_cast<std::size_t>(schedule.ranks));
  Seconds through, once;
  const int route = schedule.stages_per_route();
  for (int stage = 0; stage < route; ++stage) {
    const StageCosts& cost = step.costs.stages[static_cast<std::size_t>(stage)];
    const auto rank = static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(stage)]);
    of_rank[rank] += cost.forward;
    once = std::max(once, cost.first_forward);
    through += cost.forward;
    if (stage + 1 < route) through += step.costs.transfer + step.costs.latency;
  }
  const Seconds slowest = *std::max_element(of_rank.begin(), of_rank.end());
  return through + once + slowest * static_cast<double>(microbatches - 1);
}

Bytes scoring_workspace(const RunConfig& update, int pipeline_rank) {
  RunConfig pass = update;
  pass.machine.software = "plumbline";
  pass.batch.packed = {};
  pass.parallel.dp.zero_stage = 0;
  pass.parallel.pp.virtual_chunks = 1;
  pass.parallel.ep.overlap_comm = pass.parallel.ep.shared_expert_overlap = false;
  pass.recompute = {};
  pass.offload = {};
  StageShape shape = stage_shapes(pass, update.parallel.pipeline)[static_cast<std::size_t>(pipeline_rank)];
  const MemoryBreakdown held = held_bytes(shape, pass);
  shape.distillation.on = shape.distillation.hidden = true;
  const Bytes passing = action_profile(shape, ActionType::teacher_forward, false).peak.total();
  const std::int64_t logits =
      shape.place.last ? shape.stream.tokens * shape.ends.outputs * shape.numerics.e() : 0;
  return held[Category::workspace] + held[Category::communication] + passing + Bytes{logits};
}

}  // namespace plumbline
