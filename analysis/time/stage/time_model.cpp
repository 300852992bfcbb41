#include "analysis/time/stage/time_model.hpp"

#include <algorithm>
#include <utility>

#include "analysis/time/action_lanes.hpp"
#include "analysis/time/host_copies.hpp"
#include "analysis/time/lone_passes.hpp"
#include "analysis/time/operand_reuse.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/pair_time.hpp"
#include "analysis/time/stage/message_costs.hpp"
#include "analysis/time/stage/pass_lines.hpp"
#include "analysis/time/stage/step_end.hpp"
#include "analysis/time/stage/vocabulary_time.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "analysis/work/routing/uneven_load.hpp"

namespace plumbline {
namespace {

/// Slowdown of every rank, relative to running alone, while all ranks work.
double crowd(const HardwareProfile& hardware, int world) {
  return hardware.processors() > 0 ? std::max(1.0, static_cast<double>(world) / hardware.processors()) : 1;
}

/// The model's stages with the rows of their experts.
StageKinds kinds_of(const StepModel& model, const MeanRows& rows) {
  std::vector<StageShape> shapes = model.shapes();
  set_mean_rows(rows, shapes);
  if (!model.any().traits.own_lists) set_uneven_load(uneven_load(model.config), shapes);
  return {std::move(shapes), model.schedule};
}

/// Fills in costs, communication and lines.
class StageCoster {
 public:
  StageCoster(const StepModel& model, StepSimulation& simulation, const HardwareProfile& hardware,
              const MeanRows& rows, std::vector<ActionLanes>* lanes = nullptr)
      : config_(model.config),
        simulation_(simulation),
        schedule_(simulation.step().once),
        hardware_(hardware),
        software_(model.software),
        kinds_(kinds_of(model, rows)),
        shapes_(kinds_.shapes),
        teachers_(model.teachers),
        present_(types_in(schedule_)),
        load_(load_of(config_, simulation.step(), hardware, software_)),
        crowded_(crowd(hardware, load_.layout.world())),
        waits_for_vocabulary_(waits_for_vocabulary(hardware, schedule_, shapes_.front())),
        reuse_(config_, schedule_, shapes_, teachers_, hardware, crowded_),
        lanes_(lanes) {}

  StageCostsPrediction run() {
    all_passes();
    Costs& costs = prediction_.costs;
    costs.pairs_in_turn = shapes_.empty() || !shapes_.front().overlap.pairs;
    if (!costs.pairs_in_turn) pairs();
    set_message_costs(config_, schedule_, software_, hardware_, shapes_.front(), load_, costs);
    if (shapes_.front().vocabulary.split && !waits_for_vocabulary_)
      costs.vocabulary = vocabulary_times(hardware_, shapes_.front(), load_);
    const StepTraits& traits = shapes_.front().traits;
    costs.one_send_buffer = traits.one_send_buffer;
    costs.step_overhead = traits.machine_overhead ? hardware_.step_overhead : Seconds{software_.host.step_s};
    costs.processors = hardware_.processors();
    const Layout layout = config_.layout();
    costs.processes_per_rank = layout.tensor * layout.data;
    const StepEnd end(config_, schedule_, hardware_, kinds_, reuse_, load_, crowded_, lanes_);
    end.add(prediction_);
    end.wait_for_gathers(prediction_);
    if (end.hides_reductions()) end.hide_reductions(actions_, simulation_, prediction_);
    return std::move(prediction_);
  }

 private:
  bool has(ActionType type) const { return present_[static_cast<std::size_t>(type)]; }

  Load load_on(const StageShape& shape, ActionType type) const { return reuse_.of(shape, type, load_); }

  /// Cost of one action on its stage, without extra work.
  Seconds cost_of(const Action& action) const {
    const auto phase = std::find_if(std::begin(kPhases), std::end(kPhases),
                                    [&](const Phase& known) { return known.type == action.type; });
    return prediction_.costs.stages[action.stage].*phase->cost;
  }

  ActionTime timed(const ActionWork& work, const Load& load, ActionType type, int stage, bool first,
                   const HostCopies& copies = {}) {
    if (lanes_ == nullptr) return time_action(work, hardware_, load, copies);
    ActionLanes lanes{type, stage, std::nullopt, first, {}, {}};
    ActionTime time = time_action(work, hardware_, load, copies, &lanes.spans);
    lanes.all = time.all;
    lanes_->push_back(std::move(lanes));
    return time;
  }

  /// Every kind of overlapped pair.
  void pairs() {
    std::vector<PairCosts>& known = prediction_.costs.pairs;
    for (const std::vector<Action>& actions : schedule_.actions) {
      for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
        if (!actions[i].overlaps_next) continue;
        const Action& a = actions[i];
        const Action& b = actions[i + 1];
        const auto found = std::find_if(known.begin(), known.end(), [&](const PairCosts& pair) {
          return pair.first == a.type && pair.first_stage == a.stage && pair.second == b.type &&
                 pair.second_stage == b.stage;
        });
        const auto place = static_cast<std::size_t>(found - known.begin());
        if (place == known.size()) add_pair(a, b);
        ++prediction_.pairs[place].count;
      }
    }
  }

  void add_pair(const Action& a, const Action& b) {
    const auto work = [&](const Action& action) { return work_of(shapes_[action.stage], action.type); };
    const auto waits = [&](const Action& action) {
      return actions_[action.stage][static_cast<std::size_t>(action.type)].tensor;
    };
    const ActionWork first = work(a);
    const ActionWork second = work(b);
    const PairTime time = time_pair({first, load_on(shapes_[a.stage], a.type)},
                                    {second, load_on(shapes_[b.stage], b.type)}, hardware_);
    if (lanes_ != nullptr) lanes_->push_back({a.type, a.stage, b, false, time.all, time.lanes});
    const Seconds apart = cost_of(a) + cost_of(b);
    pair_lines(a, b, first, second, time);
    const Seconds all = time.all + hardware_.action_overhead * 2;
    prediction_.costs.pairs.push_back({a.type, a.stage, b.type, b.stage, all / apart});
    prediction_.pairs.push_back({0, apart - all, waits(a) + waits(b) - time.tensor});
  }

  /// Exposed expert exchanges of a pair, under the two actions' names without micro-batches.
  void pair_lines(const Action& a, const Action& b, const ActionWork& first, const ActionWork& second,
                  const PairTime& time) {
    const auto name = [](const Action& action) {
      const std::string text = to_string(Action{action.type, false, action.stage, 0});
      return text.substr(0, text.size() - 1);
    };
    CostLines lines(prediction_.lines, a.stage, name(a) + "+" + name(b));
    for (const ActionWork* work : {&first, &second}) {
      for (const OperatorCall& call : calls_of(*work)) {
        if (call.among(Group::expert)) lines.add(call.label, call.count, {});
      }
    }
    lines.add(time.alongside);
  }

  /// Stages of a kind take the same time, unless operands come from different caches or lanes are kept.
  void all_passes() {
    const bool alike = lanes_ == nullptr && !reuse_.matters() && teachers_.empty();
    std::vector<std::size_t> begins;  // of the stages' lines
    for (std::size_t stage = 0; stage < shapes_.size(); ++stage) {
      begins.push_back(prediction_.lines.size());
      const std::size_t first = kinds_.first_stage[kinds_.of_stage[stage]];
      if (!alike || first == stage) {
        passes(shapes_[stage]);
        continue;
      }
      prediction_.costs.stages.push_back(StageCosts(prediction_.costs.stages[first]));
      prediction_.communication.push_back(StageCommunication(prediction_.communication[first]));
      actions_.push_back(StageActions(actions_[first]));
      repeat_lines(prediction_.lines, begins[first], begins[first + 1], static_cast<int>(stage));
    }
  }

  void passes(const StageShape& shape) {
    StageCosts costs;
    StageCommunication communication;
    StageActions& actions = actions_.emplace_back();
    for (const Phase& phase : kPhases) {
      const bool carried =
          phase.type >= ActionType::vocab_forward && phase.type <= ActionType::input_backward;
      if (!has(phase.type) || (carried && !shape.vocabulary.carries)) continue;
      const ActionWork work = work_of(shape, phase.type);
      const Load load = load_on(shape, phase.type);
      ActionTime& time = actions[static_cast<std::size_t>(phase.type)];
      time = timed(work, load, phase.type, shape.place.stage, false,
                   host_copies(shape, phase.type, hardware_, load));
      CostLines lines(prediction_.lines, shape.place.stage, phase.name);
      add_pass_lines(shape, phase.type, work, time, hardware_, load, lines);
      VocabularySeconds waited{};
      if (waits_for_vocabulary_ && shape.vocabulary.carries)
        waited = vocabulary_waits(hardware_, shape, phase.type, load, lines);
      costs.*phase.cost = time.all + sum_of(waited) + hardware_.action_overhead;
      communication.*phase.communication = {time.tensor, time.gathers + time.scatters, time.copies, waited};
    }
    first_forward(shape, load_on(shape, ActionType::forward), costs);
    if (shape.expert.overlapped) lone_exchanges(shape, costs, communication);
    if (has(ActionType::teacher_forward) && !teachers_.empty()) {
      const ActionWork work =
          work_of(teachers_[static_cast<std::size_t>(shape.place.stage)], ActionType::teacher_forward);
      const Load load = load_on(shape, ActionType::teacher_forward);
      const ActionTime time = timed(work, load, ActionType::teacher_forward, shape.place.stage, false);
      costs.teacher_forward = time.all + hardware_.action_overhead;
      communication.teacher_forward = {time.tensor, {}, {}, {}};
      CostLines lines(prediction_.lines, shape.place.stage, "teacher forward");
      add_pass_lines(shape, ActionType::teacher_forward, work, time, hardware_, load, lines);
    }
    prediction_.costs.stages.push_back(costs);
    prediction_.communication.push_back(communication);
  }

  /// Adds exchanges of the first forwards and last backwards, which no other micro-batch hides.
  void lone_exchanges(const StageShape& shape, StageCosts& costs, StageCommunication& communication) {
    StageShape alone = shape;
    alone.expert.overlapped = false;
    const double passes = lone_passes(schedule_, static_cast<std::int64_t>(config_.microbatches()));
    Seconds all;
    const auto longer = [&](ActionType type) {
      const Load load = load_on(shape, type);
      const Seconds time = time_action(work_of(alone, type), hardware_, load, {}).all;
      const Seconds paired = time_action(work_of(shape, type), hardware_, load, {}).all;
      all += Seconds{std::max(0.0, (time - paired).value) * passes};
      return Seconds{std::max(0.0, (time - paired).value) * passes};
    };
    if (has(ActionType::forward)) communication.lone_forward = longer(ActionType::forward);
    if (has(ActionType::backward)) communication.lone_backward = longer(ActionType::backward);
    costs.first_forward += communication.lone_forward;
    costs.last_backward += communication.lone_backward;
    CostLines(prediction_.lines, shape.place.stage, "step").add("expert exchanges of lone passes", 1, all);
  }

  /// Extra time of a step's first F for gathering parameters from all ranks.
  void first_forward(const StageShape& shape, const Load& load, StageCosts& costs) {
    const bool gathers = shape.gathers_in_first_forward() || shape.sharding.keeps_secondary_shards();
    if (!gathers || !has(ActionType::forward)) return;
    const HostCopies copies = host_copies(shape, ActionType::forward, hardware_, load);
    const ActionTime plain = time_action(work_of(shape, ActionType::forward), hardware_, load, copies);
    const ActionTime time =
        timed(first_forward_work(shape), load, ActionType::forward, shape.place.stage, true, copies);
    costs.first_forward.value = std::max(0.0, (time.all - plain.all).value);
    CostLines lines(prediction_.lines, shape.place.stage, "step");
    for (const OperatorCall& call : parameter_gather_calls(shape, true))
      lines.add(call.label, call.count, {});
    const Seconds hidden = time.gathered - time.gathers - (plain.gathered - plain.gathers);
    lines.add("parameter all-gather", 0, costs.first_forward, {}, {std::max(0.0, hidden.value)});
  }

  const RunConfig& config_;
  StepSimulation& simulation_;
  const Schedule& schedule_;
  const HardwareProfile& hardware_;
  const Software& software_;
  StageKinds kinds_;                       // with `rows`
  const std::vector<StageShape>& shapes_;  // of the kinds
  const std::vector<StageShape>& teachers_;
  ActionTypes present_;
  Load load_;  // during the pipeline's part of the step
  double crowded_;
  bool waits_for_vocabulary_;
  OperandReuse reuse_;
  std::vector<ActionLanes>* lanes_;
  std::vector<StageActions> actions_;
  StageCostsPrediction prediction_;
};

}  // namespace

std::vector<ActionLanes> action_lanes(const RunConfig& config, const RepeatedSchedule& step,
                                      const HardwareProfile& hardware) {
  const StepModel model(config, step.once);
  const bool balanced = !model.any().traits.own_lists || config.mixture.routing == MixtureConfig().routing;
  const MeanRows rows = balanced ? MeanRows() : mean_rows(model, given_steps(config));
  std::vector<ActionLanes> lanes;
  StepSimulation simulation(step);
  StageCoster(model, simulation, hardware, rows, &lanes).run();
  return lanes;
}

StageCostsPrediction stage_costs(const StepModel& model, StepSimulation& simulation,
                                 const HardwareProfile& hardware, const MeanRows& rows) {
  return StageCoster(model, simulation, hardware, rows).run();
}

StageCostsPrediction stage_costs(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware) {
  StepSimulation simulation(step);
  return stage_costs(StepModel(config, step.once), simulation, hardware);
}

}  // namespace plumbline
