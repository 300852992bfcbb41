#include "analysis/time/stage/step_end.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/memory/persistent_memory.hpp"
#include "analysis/time/host_lane.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/gather_waits.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

constexpr int kRounds = 6;         // of simulations that tell when gradients are final
constexpr double kSettled = 1e-7;  // seconds

}  // namespace

StepEnd::StepEnd(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
                 const StageKinds& kinds, const OperandReuse& reuse, const Load& load, double crowded,
                 std::vector<ActionLanes>* lanes)
    : config_(config),
      schedule_(schedule),
      hardware_(hardware),
      kinds_(kinds),
      shapes_(kinds.shapes),
      reuse_(reuse),
      load_(load),
      crowded_(crowded),
      lanes_(lanes),
      present_(types_in(schedule)) {}

/// The rank's calls one after the other, after earlier started work. `started` is in times from the begin of
/// the action, which waits for it until `now`.
void StepEnd::add_lanes(ActionType type, int stage, std::vector<LaneSpan> started, Seconds now,
                        const std::vector<OperatorCall>& calls, const Load& load) const {
  if (lanes_ == nullptr) return;
  ActionLanes lanes{type, stage, std::nullopt, false, {}, std::move(started)};
  for (const OperatorCall& call : calls) {
    const Seconds time = time_of(call, hardware_, load);
    if (call.collective() != nullptr) add_awaited(call, now, time, lanes.spans);
    now += time;
  }
  lanes.all = now;
  lanes_->push_back(std::move(lanes));
}

/// Gradients are reduced alongside the last backwards: on ranks with a processor each.
bool StepEnd::overlaps_reductions() const {
  return hardware_.processors() == 0 && !shapes_.empty() && shapes_.front().overlap.grad_reduce;
}

bool StepEnd::hides_reductions() const {
  return has(ActionType::reduce_gradients) && overlaps_reductions() &&
         (shapes_.front().sharding.data > 1 || shapes_.front().expert.copies > 1) &&
         shapes_.front().sharding.zero <= 1;
}

/// The end of the step: every rank at once, over everything it holds.
Load StepEnd::load_at_end(std::int64_t held_bytes) const {
  Load load = load_;
  load.busy = load.layout.world() > 1 ? 1 : 0;
  load.sharing = crowded_;
  load.operands = {.apart = reuse_.in_turns(held_bytes)};
  return load;
}

void StepEnd::add(StageCostsPrediction& prediction) const {
  const bool alike = lanes_ == nullptr && !reuse_.matters() && schedule_.routes == 1;
  std::vector<std::size_t> begins;  // of the ranks' lines
  for (int rank = 0; rank < schedule_.ranks; ++rank) {
    begins.push_back(prediction.lines.size());
    const int first = kinds_.first_rank[kinds_.of_rank[static_cast<std::size_t>(rank)]];
    const auto known = static_cast<std::size_t>(first);
    if (!alike || first == rank || kinds_.stages_held[known].empty()) {
      add_rank(rank, prediction);
      continue;
    }
    const StageCosts& from = prediction.costs.stages[kinds_.stages_held[known].front()];
    const std::size_t stage = kinds_.stages_held[static_cast<std::size_t>(rank)].front();
    StageCosts& to = prediction.costs.stages[stage];
    to.reduce_gradients = from.reduce_gradients;
    to.reduce_embedding = from.reduce_embedding;
    to.optimizer = from.optimizer;
    repeat_lines(prediction.lines, begins[known], begins[known + 1], static_cast<int>(stage));
  }
}

void StepEnd::add_rank(int rank, StageCostsPrediction& prediction) const {
  const HeldStages stages = stages_on_rank(config_, schedule_, shapes_, rank);
  if (stages.held.empty()) return;
  const Load load = load_at_end(held_bytes(stages.held, config_).total().value);
  const int stage = stages.held.front().place.stage;
  StageCosts& costs = prediction.costs.stages[static_cast<std::size_t>(stage)];
  CostLines lines(prediction.lines, stage, "step");
  const auto total = [&](const std::vector<OperatorCall>& calls, bool listed = true) {
    Seconds sum;
    for (const OperatorCall& call : calls) {
      const Seconds time = time_of(call, hardware_, load);
      if (listed) lines.add(call, time);
      sum += time;
    }
    return sum;
  };
  const StageShape& any = stages.held.front();
  const bool shown = any.traits.ends_by_call;
  const auto ends = [&](ActionType type, const std::vector<OperatorCall>& calls) {
    if (shown) add_lanes(type, stage, {}, {}, calls, load);
    return total(calls);
  };
  if (has(ActionType::reduce_gradients)) {
    // On a GPU computation hides the buckets in part: hide_reductions adds the rest.
    const bool late = overlaps_reductions() && any.sharding.zero <= 1;
    const auto waited = late ? late_reduction_calls(stages) : step_reduction_calls(stages, config_);
    if (late && shown) total(step_reduction_calls(stages, config_));
    costs.reduce_gradients = total(waited, !late || !shown);
    if (shown && !hides_reductions()) add_lanes(ActionType::reduce_gradients, stage, {}, {}, waited, load);
  }
  if (has(ActionType::reduce_embedding))
    costs.reduce_embedding = ends(ActionType::reduce_embedding, reduce_embedding_calls(stages));
  if (!has(ActionType::optimizer)) return;
  const auto updates = step_update_calls(stages, config_);
  costs.optimizer = ends(ActionType::optimizer, updates);
  costs.optimizer -= gathered_in_update(stages, updates, load).waited;
  const UpdateWait waits = update_wait(stages, updates, hardware_, load);
  if (waits.update.value > 0) lines.add("waits for the host", 1, waits.update);
  if (waits.gathered.value > 0) lines.add("metrics of all ranks", 1, waits.gathered);
  costs.optimizer += waits.update + waits.gathered;
}

/// Megatron-Core's overlap_param_gather_with_optimizer_step: of two optimizers, the first updates the first
/// chunk alone and starts its gather, which the update of the others hides (NVIDIA/Megatron-LM@d98e8a64
/// megatron/core/optimizer/__init__.py, all_dense_model_chunks; optimizer.py, ChainedOptimizer._step).
StepEnd::EarlyGather StepEnd::gathered_in_update(const HeldStages& rank,
                                                 const std::vector<OperatorCall>& updates,
                                                 const Load& load) const {
  if (!rank.held.front().overlap.gathers_in_update || rank.held.size() < 2) return {};
  Seconds update, gathers;
  for (const OperatorCall& call : updates) {
    if (call.name() == "optimizer step") update = time_of(call, hardware_, load);
    if (call.collective() != nullptr && std::string_view(call.label).ends_with("parameter all-gather"))
      gathers += time_of(call, hardware_, load);
  }
  double all = 0;
  double first = 0;
  for (const StageShape& s : rank.held) {
    const auto elements = static_cast<double>(trainable_elements(s));
    all += elements;
    if (s.place.stage == rank.held.front().place.stage) first = elements;
  }
  const Seconds hidden = update * (1 - first / all);
  const Seconds waited = std::min(gathers, hidden);
  return {waited, hidden - waited};
}

/// Hooks of the modules gather buckets (gather_waits). Ranks behind the first, and later chunks, have one
/// bucket each (disable_bucketing of distributed_data_parallel.py). With several chunks per rank all gathers
/// start with the step, on every rank (param_sync_func of schedules.py); OPT holds the wait of a rank's first
/// layer. Without align_param_gather a chunk's gathers start when its first forward needs them, one chunk
/// after the other along the pipeline. Pipelines of one chunk per rank are left out: published runs
/// contradict waits on every stage.
void StepEnd::wait_for_gathers(StageCostsPrediction& prediction) const {
  if (schedule_.ranks == 1 && shapes_.size() == 1) return wait_for_buckets(prediction);
  const bool chunks = shapes_.size() > static_cast<std::size_t>(schedule_.ranks);
  if (!has(ActionType::forward) || hardware_.processors() != 0 || (schedule_.ranks > 1 && !chunks)) return;
  std::vector<double> gathered(static_cast<std::size_t>(schedule_.ranks));
  double start = 0;  // of the first micro-batch's forward
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const StageShape& s = shapes_[i];
    StageCosts& costs = prediction.costs.stages[i];
    if (s.sharding.zero == 1 && s.overlap.param_gather && !s.traits.gathers_in_first_forward) {
      double own = 0;
      for (const OperatorCall& call : framework_gather_calls({{s}, config_.layout()}))
        own += time_of(call, hardware_, load_at_end(0)).value;
      const auto layers = static_cast<double>(std::max<std::int64_t>(s.layers, 1));
      const double behind_first = (layers - 1) / layers;
      const double hidden = s.place.first ? costs.forward.value * behind_first : 0;
      double& all = gathered[static_cast<std::size_t>(schedule_.rank_of_stage[i])];
      if (s.overlap.gathers_in_update && i < static_cast<std::size_t>(schedule_.ranks)) {
        const HeldStages rank = stages_on_rank(config_, schedule_, shapes_, schedule_.rank_of_stage[i]);
        const Load load = load_at_end(0);
        const Seconds ahead = gathered_in_update(rank, step_update_calls(rank, config_), load).ahead;
        all = std::max(0.0, own * behind_first - ahead.value);
        own = std::max(0.0, own - ahead.value);
      } else {
        all += all == 0 ? own * behind_first : own;
      }
      const bool alone = s.overlap.interleaved && !s.overlap.aligned_gathers;
      const double wait = alone ? std::max(own - hidden, own / layers) : all - start - hidden;
      if (wait > 0) {
        costs.first_forward += Seconds{wait};
        CostLines(prediction.lines, static_cast<int>(i), "step")
            .add("waits for parameters", 1, Seconds{wait});
        start += wait;
      }
    }
    start += costs.forward.value;
  }
}

/// One chunk on one pipeline rank. OPT holds a layer's share already.
void StepEnd::wait_for_buckets(StageCostsPrediction& prediction) const {
  const StageShape& s = shapes_.front();
  const bool gathers = s.sharding.zero == 1 && s.overlap.param_gather && !s.traits.gathers_in_first_forward;
  if (!has(ActionType::forward) || hardware_.processors() != 0 || !gathers) return;
  StageCosts& costs = prediction.costs.stages.front();
  const Load load = load_at_end(0);
  const std::vector<OperatorCall> calls = framework_gather_calls({{s}, config_.layout()});
  const auto is_of = [](const OperatorCall& call, GatherChain chain) {
    return std::string_view(call.label).starts_with("expert") == (chain == GatherChain::experts);
  };
  const auto gather_s = [&](GatherChain chain, double share) {
    double seconds = 0;
    for (OperatorCall call : calls) {
      if (!is_of(call, chain)) continue;
      auto& elements = call.get<CollectiveCall>().elements;
      elements = static_cast<std::int64_t>(static_cast<double>(elements) * share);
      seconds += time_of(call, hardware_, load).value;
    }
    return seconds;
  };
  const auto modules = hooked_modules(s, costs.forward.value, prediction.lines);
  const double all = gather_s(GatherChain::rest, 1) + gather_s(GatherChain::experts, 1);
  const double waited = gather_waits(modules, least_reduced(s), gather_s);
  const double wait = waited - all / static_cast<double>(std::max<std::int64_t>(s.layers, 1));
  if (wait > 0) {
    costs.first_forward += Seconds{wait};
    CostLines(prediction.lines, s.place.stage, "step").add("waits for parameters", 1, Seconds{wait});
  }
  costs.first_forward += slower_alongside(calls, all - waited, s.place.stage, prediction);
  add_gathers(s.place.stage, all, waited - wait, wait);
}

/// The lane of a first forward that waits `wait` for gathers, behind those of OPT until `begun`.
void StepEnd::add_gathers(int stage, double all, double begun, double wait) const {
  if (lanes_ == nullptr) return;
  const auto plain = std::find_if(lanes_->begin(), lanes_->end(), [&](const ActionLanes& lanes) {
    return lanes.type == ActionType::forward && lanes.stage == stage && !lanes.first && !lanes.second;
  });
  if (plain == lanes_->end()) return;
  ActionLanes first = *plain;
  first.first = true;
  first.all += Seconds{std::max(0.0, wait)};
  first.spans.push_back({Group::data, {}, {std::max(0.0, all - begun)}, {std::max(0.0, wait)}});
  lanes_->push_back(std::move(first));
}

/// Adds a line of what computation loses while it hides `hidden` seconds of these collectives.
Seconds StepEnd::slower_alongside(const std::vector<OperatorCall>& calls, double hidden, int stage,
                                  StageCostsPrediction& prediction) const {
  double slowdown = 1;
  for (const OperatorCall& call : calls) {
    if (call.elements() > 0)
      slowdown = std::max(slowdown, slowdown_alongside_replicas(*call.collective(), hardware_, load_.layout));
  }
  const Seconds slower{std::max(0.0, hidden) * (1 - 1 / slowdown)};
  if (slower.value > 0)
    CostLines(prediction.lines, stage, "step").add("slower alongside data collectives", 1, slower);
  return slower;
}

/// The waits of one simulation move the actions of the next one. It settles in a few rounds, since an
/// action waits only for work that began before it.
void StepEnd::hide_reductions(const std::vector<StageActions>& actions, StepSimulation& simulation,
                              StageCostsPrediction& prediction) const {
  Costs& costs = prediction.costs;
  const Load load = load_at_end(0);
  const auto buckets = priced_buckets(
      config_, kinds_, [&](const OperatorCall& call) { return time_of(call, hardware_, load); });
  ReductionCosts waits{std::vector<Seconds>(shapes_.size()), std::vector<Seconds>(shapes_.size())};
  const auto with_lone = [&](std::vector<Seconds> last_backward) {
    for (std::size_t i = 0; i < last_backward.size(); ++i)
      last_backward[i] += prediction.communication[i].lone_backward;
    return last_backward;
  };
  bool settled = false;
  for (int round = 0; round < kRounds && !settled; ++round) {
    Costs assumed = costs;
    ReductionCosts longer = waits;
    longer.last_backward = with_lone(waits.last_backward);
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      assumed.stages[i].reduce_gradients = {};
      assumed.stages[i].last_backward = longer.last_backward[i];
    }
    ReductionCosts next =
        reduction_costs(schedule_, shapes_, buckets, actions, simulation.run(assumed), longer);
    settled = true;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const double change = (next.last_backward[i] - waits.last_backward[i]).value;
      settled = settled && std::abs(change) < kSettled;
    }
    waits = std::move(next);
  }
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    costs.stages[i].last_backward = waits.last_backward[i] + prediction.communication[i].lone_backward;
    costs.stages[i].reduce_gradients += waits.reduce_gradients[i];
  }
  if (schedule_.ranks == 1 && shapes_.size() == 1 && !shapes_.front().traits.own_lists) {
    double hidden = 0;
    for (const LaneSpan& span : waits.lanes.front()) hidden += (span.end - span.start - span.waited).value;
    costs.stages.front().last_backward +=
        slower_alongside(step_reduction_calls({{shapes_.front()}, config_.layout()}, config_), hidden,
                         shapes_.front().place.stage, prediction);
  }
  for (std::size_t rank = 0; rank < waits.lanes.size(); ++rank) {
    const HeldStages stages = stages_on_rank(config_, schedule_, shapes_, static_cast<int>(rank));
    if (stages.held.empty()) continue;
    const int stage = stages.held.front().place.stage;
    add_lanes(ActionType::reduce_gradients, stage, std::move(waits.lanes[rank]),
              waits.reduce_gradients[static_cast<std::size_t>(stage)], late_reduction_calls(stages), load);
  }
}

}  // namespace plumbline
