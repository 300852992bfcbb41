#include "analysis/time_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "analysis/gradient_overlap.hpp"
#include "analysis/held_memory.hpp"
#include "analysis/simulator.hpp"

namespace plumbline {
namespace {

/// The lines of one phase of a stage: one per label.
class Lines {
 public:
  Lines(std::vector<CostLine>& lines, int stage, const char* phase)
      : lines_(lines), first_(lines.size()), stage_(stage), phase_(phase) {}

  void add(const OperatorCall& call, Seconds time) { add(label_of(call), call.count, time, flops_of(call)); }
  void add(const std::string& label, std::int64_t count, Seconds time, Flops flops = {}) {
    auto line = std::find_if(lines_.begin() + static_cast<std::ptrdiff_t>(first_), lines_.end(),
                             [&](const CostLine& known) { return known.label == label; });
    if (line == lines_.end()) line = lines_.insert(line, {stage_, phase_, label, 0, {}, {}});
    line->count += count;
    line->seconds += time;
    line->flops += flops;
  }

 private:
  std::vector<CostLine>& lines_;
  std::size_t first_;
  int stage_;
  const char* phase_;
};

/// How many times slower than alone everybody is while every rank works.
double crowd(const HardwareProfile& hardware, int world) {
  return hardware.processors > 0 ? std::max(1.0, static_cast<double>(world) / hardware.processors) : 1;
}

/// Bytes one rank touches in a forward and backward: weights and gradients of its stage and the activations
/// of a micro-batch. Ranks that take turns on a processor share its caches. A gradient is touched once in
/// that cycle. Weights and activations are touched on the way forward and on the way back, so between two
/// touches lies anything from nothing to the whole cycle, half of it on average.
Bytes bytes_per_microbatch(const StageShape& shape, double turns) {
  const std::int64_t parameters = parameters_of(shape).total() * (shape.e() + shape.g());
  const std::int64_t layer =
      shape.e() * (4 * shape.hidden + 2 * shape.q + 2 * shape.k + shape.fc1 + shape.ffn);
  const std::int64_t logits = shape.last ? shape.e() * shape.vocab : 0;
  const auto bytes = static_cast<double>(parameters + shape.tokens * (shape.layers * layer + logits));
  return {static_cast<std::int64_t>(bytes * turns)};
}

constexpr int kRounds = 6;         // of simulations that tell when gradients are final
constexpr double kSettled = 1e-7;  // seconds

struct Phase {
  ActionType type;
  const char* name;
  Seconds StageCosts::*cost;
  PassCommunication StageCommunication::*communication;
};
// In the order of ActionType, which StageActions relies on.
constexpr std::array<Phase, 4> kPhases = {{
    {ActionType::forward, "forward", &StageCosts::forward, &StageCommunication::forward},
    {ActionType::backward, "backward", &StageCosts::backward, &StageCommunication::backward},
    {ActionType::backward_input, "backward input", &StageCosts::backward_input,
     &StageCommunication::backward_input},
    {ActionType::backward_weight, "backward weight", &StageCosts::backward_weight,
     &StageCommunication::backward_weight},
}};

std::array<bool, kActionTypes> types_in(const Schedule& schedule) {
  std::array<bool, kActionTypes> present{};
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) present[static_cast<std::size_t>(action.type)] = true;
  }
  return present;
}

/// Fills in costs, communication and lines.
class StageCoster {
 public:
  StageCoster(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware)
      : config_(config),
        schedule_(schedule),
        hardware_(hardware),
        shapes_(stage_shapes(config, schedule)),
        teachers_(teacher_shapes(config, schedule)),
        present_(types_in(schedule)),
        load_(load_of(config, schedule, hardware)),
        crowded_(crowd(hardware, load_.layout.world())) {}

  StageCostsPrediction run() {
    for (const StageShape& shape : shapes_) passes(shape);
    transfers();
    Costs& costs = prediction_.costs;
    costs.one_send_buffer = true;
    costs.processors = hardware_.processors;
    const Layout layout = config_.layout();
    costs.processes_per_rank = layout.tensor * layout.data;
    for (int rank = 0; rank < schedule_.ranks; ++rank) step_end(rank);
    if (has(ActionType::reduce_gradients) && hardware_.processors == 0 && !shapes_.empty() &&
        shapes_.front().data > 1 && shapes_.front().zero <= 1) {
      hide_reductions();
    }
    return std::move(prediction_);
  }

 private:
  bool has(ActionType type) const { return present_[static_cast<std::size_t>(type)]; }

  void passes(const StageShape& shape) {
    Load load = load_;
    load.gradient_working_set = bytes_per_microbatch(shape, crowded_);
    load.working_set = {load.gradient_working_set.value / 2};
    StageCosts costs;
    StageCommunication communication;
    StageActions& actions = actions_.emplace_back();
    for (const Phase& phase : kPhases) {
      if (!has(phase.type)) continue;
      const ActionWork work = work_of(shape, phase.type);
      ActionTime& time = actions[static_cast<std::size_t>(phase.type)];
      time = time_action(work, hardware_, load);
      costs.*phase.cost = time.all + hardware_.action_overhead;
      communication.*phase.communication = {time.tensor, time.gathers + time.scatters};
      pass_lines(shape.stage, phase.name, work, time, load);
    }
    if (has(ActionType::teacher_forward) && !teachers_.empty()) {
      const ActionWork work =
          work_of(teachers_[static_cast<std::size_t>(shape.stage)], ActionType::teacher_forward);
      const ActionTime time = time_action(work, hardware_, load);
      costs.teacher_forward = time.all + hardware_.action_overhead;
      communication.teacher_forward = {time.tensor, {}};
      pass_lines(shape.stage, "teacher forward", work, time, load);
    }
    prediction_.costs.stages.push_back(costs);
    prediction_.communication.push_back(communication);
  }

  void pass_lines(int stage, const char* phase, const ActionWork& work, const ActionTime& time,
                  const Load& load) {
    Lines lines(prediction_.lines, stage, phase);
    bool gathers = false;
    bool scatters = false;
    for (const OperatorCall& call : calls_of(work)) {
      if (call.group != Group::data) {
        lines.add(call, time_of(call, hardware_, load));
        continue;
      }
      // Beside computation: only the whole action's waiting is known, not each call's.
      bool& counted = call.kind == CallKind::all_gather ? gathers : scatters;
      const Seconds waited = call.kind == CallKind::all_gather ? time.gathers : time.scatters;
      lines.add(call.label, call.count, counted ? Seconds{} : waited);
      counted = true;
    }
  }

  /// The waits of one simulation move the actions of the next one; it settles in a few rounds, since an
  /// action waits only for what began before it.
  void hide_reductions() {
    Costs& costs = prediction_.costs;
    const Load load = end_load(0);
    const auto price = [&](const OperatorCall& call) { return time_of(call, hardware_, load); };
    ReductionCosts waits{std::vector<Seconds>(shapes_.size()), std::vector<Seconds>(shapes_.size())};
    bool settled = false;
    for (int round = 0; round < kRounds && !settled; ++round) {
      Costs assumed = costs;
      for (std::size_t i = 0; i < shapes_.size(); ++i) {
        assumed.stages[i].reduce_gradients = {};
        assumed.stages[i].last_backward = waits.last_backward[i];
      }
      ReductionCosts next =
          reduction_costs(config_, schedule_, shapes_, actions_, simulate(schedule_, assumed), waits, price);
      settled = true;
      for (std::size_t i = 0; i < shapes_.size(); ++i) {
        const double change = (next.last_backward[i] - waits.last_backward[i]).value;
        settled = settled && std::abs(change) < kSettled;
      }
      waits = std::move(next);
    }
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      costs.stages[i].last_backward = waits.last_backward[i];
      costs.stages[i].reduce_gradients += waits.reduce_gradients[i];
    }
  }

  /// The end of the step: every rank at once, over everything it holds.
  Load end_load(std::int64_t held_bytes) const {
    Load load = load_;
    load.busy = load.layout.world() > 1 ? 1 : 0;
    load.sharing = crowded_;
    load.working_set = {static_cast<std::int64_t>(static_cast<double>(held_bytes) * crowded_)};
    return load;
  }

  void step_end(int rank) {
    const RankStages stages = stages_on_rank(config_, schedule_, shapes_, rank);
    if (stages.held.empty()) return;
    const Load load = end_load(held_bytes(stages.held, config_).total().value);
    const int stage = stages.held.front().stage;
    StageCosts& costs = prediction_.costs.stages[static_cast<std::size_t>(stage)];
    Lines lines(prediction_.lines, stage, "step");
    const auto total = [&](const std::vector<OperatorCall>& calls) {
      Seconds sum;
      for (const OperatorCall& call : calls) {
        const Seconds time = time_of(call, hardware_, load);
        lines.add(call, time);
        sum += time;
      }
      return sum;
    };
    if (has(ActionType::reduce_gradients)) {
      const Seconds all = total(reduce_gradients_calls(stages, config_));
      // Beside a GPU's computation the buckets are hidden in part: hide_reductions adds what is left.
      costs.reduce_gradients = all;
      if (hardware_.processors == 0) {
        costs.reduce_gradients = {};
        for (const OperatorCall& call : late_reduction_calls(stages)) {
          costs.reduce_gradients += time_of(call, hardware_, load);
        }
      }
    }
    if (has(ActionType::reduce_embedding)) costs.reduce_embedding = total(reduce_embedding_calls(stages));
    if (has(ActionType::optimizer)) costs.optimizer = total(optimizer_calls(stages, config_, 0));
  }

  /// What a message of the student (with `joint` also the teacher's part) takes on one kind of hop.
  Hop hop(bool between_nodes) const {
    const int world = load_.layout.world();
    const StageShape& any = shapes_.front();
    const auto message = [&](std::int64_t width) {
      return message_time(hardware_, world, {any.rows * width * any.e()}, between_nodes);
    };
    const std::int64_t joint = schedule_.joint_teacher ? any.distillation.teacher_hidden : 0;
    const Seconds whole = message(any.hidden + joint);
    Hop hop;
    hop.latency = std::min(whole, message_time(hardware_, world, {1}, between_nodes));
    hop.transfer = whole - hop.latency;
    if (has(ActionType::send_teacher)) {
      hop.teacher_transfer = std::max(message(any.distillation.teacher_hidden) - hop.latency, Seconds{0});
    }
    return hop;
  }

  void transfers() {
    if (schedule_.ranks < 2) return;
    Costs& costs = prediction_.costs;
    static_cast<Hop&>(costs) = hop(false);
    costs.receive_busy = hardware_.processors > 0 ? costs.transfer : Seconds{0};
    costs.ranks_per_node = pipeline_ranks_per_node(hardware_, load_.layout);
    if (costs.ranks_per_node > 0) costs.between_nodes = hop(true);
  }

  const RunConfig& config_;
  const Schedule& schedule_;
  const HardwareProfile& hardware_;
  std::vector<StageShape> shapes_;
  std::vector<StageShape> teachers_;
  std::array<bool, kActionTypes> present_;
  Load load_;  // during the pipeline's part of the step
  double crowded_;
  std::vector<StageActions> actions_;
  StageCostsPrediction prediction_;
};

}  // namespace

Load load_of(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware) {
  Load load;
  const Layout& layout = load.layout = config.layout();
  const int processors = hardware.processors;
  if (processors == 0) return load;
  const int beside = layout.tensor * layout.data;  // ranks of one pipeline coordinate
  StageCosts equal;
  equal.forward = equal.backward_input = equal.backward_weight = {1};
  equal.backward = {2};
  equal.teacher_forward = {1};
  const Bubble bubble = bubble_of(simulate(schedule, uniform_costs(schedule.stages, equal)));
  const double together = std::max(0.0, 1 - bubble.ratio);
  const double others = beside - 1 + together * beside * (layout.pipeline - 1);
  load.busy = processors > 1 ? std::min(1.0, others / (processors - 1)) : 0;
  load.sharing = std::max(1.0, (others + 1) / processors);
  return load;
}

StageCostsPrediction stage_costs(const RunConfig& config, const Schedule& schedule,
                                 const HardwareProfile& hardware) {
  return StageCoster(config, schedule, hardware).run();
}

}  // namespace plumbline
