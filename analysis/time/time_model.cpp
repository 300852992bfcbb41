#include "analysis/time/time_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "analysis/memory/persistent_memory.hpp"
#include "analysis/time/action_lanes.hpp"
#include "analysis/time/gradient_overlap.hpp"
#include "analysis/time/host_copies.hpp"
#include "analysis/time/lone_passes.hpp"
#include "analysis/time/operand_reuse.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/pair_time.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "analysis/work/routing/uneven_load.hpp"

namespace plumbline {
namespace {

/// The lines of one phase of a stage: one per label.
class Lines {
 public:
  Lines(std::vector<CostLine>& lines, int stage, std::string phase)
      : lines_(lines), first_(lines.size()), stage_(stage), phase_(std::move(phase)) {}

  void add(const OperatorCall& call, Seconds time) { add(label_of(call), call.count, time, flops_of(call)); }
  /// `hidden`: its time besides `time`, behind computation.
  void add(const std::string& label, std::int64_t count, Seconds time, Flops flops = {},
           Seconds hidden = {}) {
    auto line = std::find_if(lines_.begin() + static_cast<std::ptrdiff_t>(first_), lines_.end(),
                             [&](const CostLine& known) { return known.label == label; });
    if (line == lines_.end()) line = lines_.insert(line, {stage_, phase_, label, 0, {}, {}, {}});
    line->count += count;
    line->seconds += time;
    line->flops += flops;
    line->hidden += hidden;
  }

 private:
  std::vector<CostLine>& lines_;
  std::size_t first_;
  int stage_;
  std::string phase_;
};

/// Slowdown of every rank, relative to running alone, while all ranks work.
double crowd(const HardwareProfile& hardware, int world) {
  return hardware.processors() > 0 ? std::max(1.0, static_cast<double>(world) / hardware.processors()) : 1;
}

constexpr int kRounds = 6;         // of simulations that tell when gradients are final
constexpr double kSettled = 1e-7;  // seconds

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
        shapes_(model.shapes()),
        teachers_(model.teachers),
        present_(types_in(schedule_)),
        load_(load_of(config_, simulation.step(), hardware, software_)),
        crowded_(crowd(hardware, load_.layout.world())),
        reuse_(config_, schedule_, shapes_, teachers_, hardware, crowded_),
        lanes_(lanes) {
    set_mean_rows(rows, shapes_);
    if (!model.any().traits.own_lists) set_uneven_load(uneven_load(config_), shapes_);
  }

  StageCostsPrediction run() {
    for (const StageShape& shape : shapes_) passes(shape);
    Costs& costs = prediction_.costs;
    costs.pairs_in_turn = shapes_.empty() || !shapes_.front().overlap.pairs;
    if (!costs.pairs_in_turn) pairs();
    transfers();
    collectives();
    const StepTraits& traits = shapes_.front().traits;
    costs.one_send_buffer = traits.one_send_buffer;
    costs.step_overhead = traits.machine_overhead ? hardware_.step_overhead : Seconds{software_.step_s};
    costs.processors = hardware_.processors();
    const Layout layout = config_.layout();
    costs.processes_per_rank = layout.tensor * layout.data;
    for (int rank = 0; rank < schedule_.ranks; ++rank) step_end(rank);
    if (hides_reductions()) hide_reductions();
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

  /// Calls of the rank at the end of the step, one after the other.
  void end_lanes(ActionType type, int stage, const std::vector<OperatorCall>& calls, const Load& load) {
    end_lanes(type, stage, {}, {}, calls, load);
  }
  /// The same after earlier started work, in times from the begin of the action, which waits for it until
  /// `now`.
  void end_lanes(ActionType type, int stage, std::vector<LaneSpan> started, Seconds now,
                 const std::vector<OperatorCall>& calls, const Load& load) {
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
    Lines lines(prediction_.lines, a.stage, name(a) + "+" + name(b));
    for (const ActionWork* work : {&first, &second}) {
      for (const OperatorCall& call : calls_of(*work)) {
        if (call.among(Group::expert)) lines.add(call.label, call.count, {});
      }
    }
    add_alongside_lines(time.alongside, lines);
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
      const VocabularySeconds waited = pass_lines(shape, phase, work, time, load);
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
      const Phase phase{ActionType::teacher_forward, "teacher forward", &StageCosts::teacher_forward,
                        &StageCommunication::teacher_forward};
      pass_lines(shape, phase, work, time, load);
    }
    prediction_.costs.stages.push_back(costs);
    prediction_.communication.push_back(communication);
  }

  /// What hides exchanges behind another micro-batch cannot do for the first forwards and last backwards.
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
    Lines(prediction_.lines, shape.place.stage, "step").add("expert exchanges of lone passes", 1, all);
  }

  /// Gradients are reduced alongside the last backwards: on ranks with a processor each.
  bool overlaps_reductions() const {
    return hardware_.processors() == 0 && !shapes_.empty() && shapes_.front().overlap.grad_reduce;
  }

  /// True if it hides reductions that ARG waits for.
  bool hides_reductions() const {
    return has(ActionType::reduce_gradients) && overlaps_reductions() &&
           (shapes_.front().sharding.data > 1 || shapes_.front().expert.copies > 1) &&
           shapes_.front().sharding.zero <= 1;
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
    Lines lines(prediction_.lines, shape.place.stage, "step");
    for (const OperatorCall& call : parameter_gather_calls(shape)) lines.add(call.label, call.count, {});
    const Seconds hidden = time.gathered - time.gathers - (plain.gathered - plain.gathers);
    lines.add("parameter all-gather", 0, costs.first_forward, {}, {std::max(0.0, hidden.value)});
  }

  /// Nothing hides the collectives of vocabulary parallelism: ranks share processors, or a framework's
  /// interlaced passes are in step on all ranks.
  bool waits_for_vocabulary() const {
    return hardware_.processors() > 0 ||
           (shapes_.front().traits.interlaced_in_step && schedule_.vocab == VocabPasses::interlaced);
  }

  /// Returns the pass's wait for collectives of vocabulary parallelism on shared processors. Nothing overlaps
  /// with computation there: they take their time where the pass needs or starts them.
  VocabularySeconds pass_lines(const StageShape& shape, const Phase& phase, const ActionWork& work,
                               const ActionTime& time, const Load& load) {
    Lines lines(prediction_.lines, shape.place.stage, phase.name);
    bool gathers = false;
    bool scatters = false;
    for (const OperatorCall& call : calls_of(work)) {
      if (call.as<WaitCall>() != nullptr) continue;
      const CollectiveCall* collective = call.collective();
      if (collective != nullptr &&
          collective->ticket > 0) {  // its time follows from that of the whole action
        lines.add(call.label, call.count, {});
        continue;
      }
      if (collective == nullptr || !over_replicas(collective->group)) {
        lines.add(call, time_of(call, hardware_, load));
        continue;
      }
      // Overlapped with computation: only the whole action's waiting is known, not each call's.
      const bool gather = collective->kind == CallKind::all_gather;
      bool& counted = gather ? gathers : scatters;
      const Seconds waited = gather ? time.gathers : time.scatters;
      const Seconds all = gather ? time.gathered : time.scattered;
      lines.add(call.label, call.count, counted ? Seconds{} : waited, {}, counted ? Seconds{} : all - waited);
      counted = true;
    }
    add_alongside_lines(time.alongside, lines);
    if (time.host.value > 0) lines.add("waits for the host", 1, time.host);
    if (time.copied.value > 0) {
      const bool to = phase.type == ActionType::forward;
      lines.add(to ? "activations to the host" : "activations from the host", shape.recomputation.offloaded,
                time.copies, {}, time.copied - time.copies);
    }
    VocabularySeconds vocabulary{};
    if (!waits_for_vocabulary() || !shape.vocabulary.carries) return vocabulary;
    for (const OperatorCall& call : vocabulary_calls_of(shape, phase.type, load_.layout)) {
      const Seconds seconds = time_of(call, hardware_, load);
      lines.add(call, seconds);
      vocabulary[static_cast<std::size_t>(call_of(call.collective()->group))] += seconds;
    }
    return vocabulary;
  }

  /// Collectives of parameters and gradients, which overlap with computation.
  static bool over_replicas(Group group) {
    return group == Group::data || group == Group::zero_param || group == Group::optimizer_instance ||
           group == Group::between_instances;
  }

  static void add_alongside_lines(const std::vector<Alongside>& alongside, Lines& lines) {
    Seconds slower;
    for (const Alongside& part : alongside) {
      lines.add(part.label, 0, part.exposed, {}, part.all - part.exposed);
      slower += part.slower;
    }
    if (slower.value > 0) lines.add("slower alongside collectives", 1, slower);
  }

  static VocabularyCall call_of(Group group) {
    switch (group) {
      case Group::vocab_hidden:
        return VocabularyCall::hidden;
      case Group::vocab_statistics:
        return VocabularyCall::statistics;
      case Group::vocab_gradient:
        return VocabularyCall::hidden_gradient;
      case Group::embedding_output:
        return VocabularyCall::embedding;
      default:
        return VocabularyCall::embedding_gradient;
    }
  }

  /// Overlapped with computation.
  void collectives() {
    const StageShape& any = shapes_.front();
    if (!any.vocabulary.split || waits_for_vocabulary()) return;
    const VocabularyCollectives calls = vocabulary_collectives(any, load_.layout);
    const auto time = [&](const OperatorCall& call) { return time_of(call, hardware_, load_); };
    prediction_.costs.vocabulary = {time(calls.hidden), time(calls.statistics), time(calls.gradient),
                                    time(calls.embedding), time(calls.embedding_gradient)};
  }

  /// The waits of one simulation move the actions of the next one. It settles in a few rounds, since an
  /// action waits only for work that began before it.
  void hide_reductions() {
    Costs& costs = prediction_.costs;
    const Load load = end_load(0);
    const auto price = [&](const OperatorCall& call) { return time_of(call, hardware_, load); };
    ReductionCosts waits{std::vector<Seconds>(shapes_.size()), std::vector<Seconds>(shapes_.size())};
    const auto with_lone = [&](std::vector<Seconds> last_backward) {
      for (std::size_t i = 0; i < last_backward.size(); ++i)
        last_backward[i] += prediction_.communication[i].lone_backward;
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
          reduction_costs(config_, schedule_, shapes_, actions_, simulation_.run(assumed), longer, price);
      settled = true;
      for (std::size_t i = 0; i < shapes_.size(); ++i) {
        const double change = (next.last_backward[i] - waits.last_backward[i]).value;
        settled = settled && std::abs(change) < kSettled;
      }
      waits = std::move(next);
    }
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      costs.stages[i].last_backward = waits.last_backward[i] + prediction_.communication[i].lone_backward;
      costs.stages[i].reduce_gradients += waits.reduce_gradients[i];
    }
    for (std::size_t rank = 0; rank < waits.lanes.size(); ++rank) {
      const HeldStages stages = stages_on_rank(config_, schedule_, shapes_, static_cast<int>(rank));
      if (stages.held.empty()) continue;
      const int stage = stages.held.front().place.stage;
      end_lanes(ActionType::reduce_gradients, stage, std::move(waits.lanes[rank]),
                waits.reduce_gradients[static_cast<std::size_t>(stage)], late_reduction_calls(stages), load);
    }
  }

  /// The end of the step: every rank at once, over everything it holds.
  Load end_load(std::int64_t held_bytes) const {
    Load load = load_;
    load.busy = load.layout.world() > 1 ? 1 : 0;
    load.sharing = crowded_;
    load.operands = {.apart = reuse_.in_turns(held_bytes)};
    return load;
  }

  void step_end(int rank) {
    const HeldStages stages = stages_on_rank(config_, schedule_, shapes_, rank);
    if (stages.held.empty()) return;
    const Load load = end_load(held_bytes(stages.held, config_).total().value);
    const int stage = stages.held.front().place.stage;
    StageCosts& costs = prediction_.costs.stages[static_cast<std::size_t>(stage)];
    Lines lines(prediction_.lines, stage, "step");
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
      if (shown) end_lanes(type, stage, calls, load);
      return total(calls);
    };
    if (has(ActionType::reduce_gradients)) {
      // On a GPU computation hides the buckets in part: hide_reductions adds the rest.
      const bool late = overlaps_reductions() && any.sharding.zero <= 1;
      const auto waited = late ? late_reduction_calls(stages) : step_reduction_calls(stages, config_);
      if (late && shown) total(step_reduction_calls(stages, config_));
      costs.reduce_gradients = total(waited, !late || !shown);
      if (shown && !hides_reductions()) end_lanes(ActionType::reduce_gradients, stage, waited, load);
    }
    if (has(ActionType::reduce_embedding))
      costs.reduce_embedding = ends(ActionType::reduce_embedding, reduce_embedding_calls(stages));
    if (has(ActionType::optimizer))
      costs.optimizer = ends(ActionType::optimizer, step_update_calls(stages, config_));
  }

  /// Cost of a message of the student (with `joint` also the teacher's part) on one kind of hop.
  LinkCosts hop(bool between_nodes) const {
    const int world = load_.layout.world();
    const StageShape& any = shapes_.front();
    const auto message = [&](std::int64_t width) {
      return message_time(hardware_, world, {any.stream.rows * width * any.numerics.e()}, between_nodes);
    };
    const std::int64_t joint = schedule_.joint_teacher ? any.distillation.teacher_hidden : 0;
    const Seconds whole = message(any.stream.hidden + joint);
    LinkCosts hop;
    hop.latency = std::min(whole, message_time(hardware_, world, {1}, between_nodes));
    hop.transfer = whole - hop.latency;
    if (has(ActionType::send_teacher)) {
      hop.teacher_transfer = std::max(message(any.distillation.teacher_hidden) - hop.latency, Seconds{0});
    }
    return hop;
  }

  /// One message of a framework. The scatter/gather optimisation (arXiv:2104.04473 §4.1) sends each tensor
  /// rank's part, which its receivers gather.
  LinkCosts awaited_hop(bool between_nodes) const {
    const StageShape& any = shapes_.front();
    const bool scatters =
        software_.scattered_messages && !any.sharding.sequence_parallel && any.sharding.tensor > 1;
    const std::int64_t elements = any.stream.rows * any.stream.hidden;
    LinkCosts hop;
    hop.transfer =
        message_time(hardware_, load_.layout.world(),
                     {elements * any.numerics.e() / (scatters ? any.sharding.tensor : 1)}, between_nodes);
    if (scatters) {
      hop.transfer +=
          time_of(CallList::collective_call(CallKind::all_gather, "message all-gather", Group::tensor,
                                            any.sharding.tensor, elements, any.numerics.type),
                  hardware_, load_);
    }
    hop.transfer += Seconds{software_.message_s};
    return hop;
  }

  /// Hosts wait for their messages.
  bool waits_for_messages() const {
    if (shapes_.front().traits.sends_ahead) return hardware_.processors() > 0;
    const bool interleaved = software_.overlapped_interleaved && schedule_.stages > schedule_.ranks;
    return !config_.parallel.overlap_p2p_comm.value_or(software_.overlapped_messages || interleaved);
  }

  /// A pipeline whose hosts wait goes at the pace of its slowest hop.
  void transfers() {
    if (schedule_.ranks < 2) return;
    const auto hop_of = [&](bool between_nodes) {
      return shapes_.front().traits.sends_ahead ? hop(between_nodes) : awaited_hop(between_nodes);
    };
    Costs& costs = prediction_.costs;
    const int per_node = pipeline_ranks_per_node(hardware_, load_.layout);
    const bool leaves = per_node > 0 && per_node < schedule_.ranks;
    const bool waits = waits_for_messages();
    static_cast<LinkCosts&>(costs) = hop_of(leaves && waits);
    if (waits) {
      costs.receive_busy = costs.transfer;  // the receiver does nothing else meanwhile
    } else if (leaves) {
      costs.ranks_per_node = per_node;
      costs.between_nodes = hop_of(true);
    }
  }

  const RunConfig& config_;
  StepSimulation& simulation_;
  const Schedule& schedule_;
  const HardwareProfile& hardware_;
  const Software& software_;
  std::vector<StageShape> shapes_;  // with `rows`
  const std::vector<StageShape>& teachers_;
  ActionTypes present_;
  Load load_;  // during the pipeline's part of the step
  double crowded_;
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
