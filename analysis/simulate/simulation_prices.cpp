// Costs of a plan's nodes.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/simulate/price_layout.hpp"
#include "analysis/simulate/simulation_plan.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// The receiver's part grows with the message.
Seconds teacher_receive(const Costs& costs) {
  if (!costs.teacher_transfer || costs.transfer.value <= 0) return costs.receive_busy;
  return costs.receive_busy * (*costs.teacher_transfer / costs.transfer);
}

void check_the_rest(const Costs& costs) {
  (void)ticks_of({costs.overlap_factor}, "overlap_factor");
  (void)ticks_of(costs.step_overhead, "step_overhead");
  if (costs.processors < 0 || costs.processes_per_rank < 1) {
    throw InputError(fmt::format("costs: {} processors, {} processes per rank; expected at least 0 and 1",
                                 costs.processors, costs.processes_per_rank));
  }
}

/// Seconds by stage × kActionTypes + type. Values that are given for a stage and never used are checked as
/// well.
std::vector<Seconds> action_seconds(const Costs& costs) {
  std::vector<Seconds> seconds(costs.stages.size() * kTypes);
  const auto of_all = [&](ActionType type, Seconds time, const char* what) {
    (void)ticks_of(time, what);
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage)
      seconds[stage * kTypes + static_cast<std::size_t>(type)] = time;
  };
  of_all(ActionType::receive_forward, costs.receive_busy, "receive_busy");
  of_all(ActionType::receive_backward, costs.receive_busy, "receive_busy");
  of_all(ActionType::receive_teacher, teacher_receive(costs), "receive_busy");
  of_all(ActionType::reduce_gradients, costs.reduce_gradients, "reduce_gradients");
  of_all(ActionType::reduce_embedding, costs.reduce_embedding, "reduce_embedding");
  of_all(ActionType::optimizer, costs.optimizer, "optimizer");
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& c = costs.stages[stage];
    const auto add = [&](ActionType type, Seconds time, const char* what) {
      (void)ticks_of(time, what);
      seconds[stage * kTypes + static_cast<std::size_t>(type)] += time;
    };
    add(ActionType::forward, c.forward, "forward");
    add(ActionType::backward, c.backward, "backward");
    add(ActionType::backward_input, c.backward_input, "backward_input");
    add(ActionType::backward_weight, c.backward_weight, "backward_weight");
    add(ActionType::teacher_forward, c.teacher_forward, "teacher_forward");
    add(ActionType::vocab_forward, c.vocab_forward, "vocab_forward");
    add(ActionType::vocab_backward, c.vocab_backward, "vocab_backward");
    add(ActionType::input_forward, c.input_forward, "input_forward");
    add(ActionType::input_backward, c.input_backward, "input_backward");
    add(ActionType::reduce_gradients, c.reduce_gradients, "reduce_gradients");
    add(ActionType::reduce_embedding, c.reduce_embedding, "reduce_embedding");
    add(ActionType::optimizer, c.optimizer, "optimizer");
    (void)ticks_of(c.last_backward, "last_backward");
    (void)ticks_of(c.first_forward, "first_forward");
  }
  return seconds;
}

}  // namespace

std::vector<SimulationPlan::Price> SimulationPlan::prices(const Costs& costs) const {
  if (costs.stages.size() != static_cast<std::size_t>(stages_)) {
    throw InputError(
        fmt::format("costs: found {} stages, expected {} as in the schedule", costs.stages.size(), stages_));
  }
  check_the_rest(costs);
  std::vector<Price> prices(first_collective_price_ + kVocabularyCalls, Price{0, 0});
  prices[kReceiveCopy].cost = ticks_of(costs.receive_busy, "receive_busy");
  // Seconds of everything that a rank computes, before they are rounded.
  std::vector<Seconds> seconds = action_seconds(costs);
  for (std::size_t stage = 0; stage < last_backward_.size(); ++stage) {
    seconds.push_back(seconds[stage * kTypes + static_cast<std::size_t>(last_backward_[stage])] +
                      costs.stages[stage].last_backward);
  }
  for (std::size_t stage = 0; first_forwards_ && stage < costs.stages.size(); ++stage) {
    seconds.push_back(seconds[stage * kTypes + static_cast<std::size_t>(ActionType::forward)] +
                      costs.stages[stage].first_forward);
  }
  const auto of = [&](std::uint32_t price) { return seconds[price - kFixed]; };
  for (std::size_t i = 0; i < seconds.size(); ++i)
    prices[kFixed + i].cost = ticks_of(seconds[i], "an action");
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    const Seconds sum = of(pair.first) + of(pair.second);
    const auto known = std::find_if(costs.pairs.begin(), costs.pairs.end(), [&](const PairCosts& one) {
      return price_of(one.first_stage, one.first) == pair.plain_first &&
             price_of(one.second_stage, one.second) == pair.plain_second;
    });
    // Extra work of the step's first and last actions is not hidden.
    const Seconds plain = of(pair.plain_first) + of(pair.plain_second);
    const Seconds both =
        known == costs.pairs.end() ? sum * costs.overlap_factor : sum + plain * (known->factor - 1);
    prices[first_pair_price_ + i].cost = ticks_of(both, "a pair of actions");
  }
  // The receiver's part of a transfer is done by the receiver when it reaches it, not by the link.
  if (!costs.slow_links.empty() && costs.slow_links.size() != static_cast<std::size_t>(ranks_))
    throw InputError(fmt::format("costs: found {} slow links, expected {}, one per rank",
                                 costs.slow_links.size(), ranks_));
  for (std::uint32_t i = 0; i < 2 * link_senders_; ++i) {
    const std::uint32_t sender = i / 2;
    const std::uint32_t kind = i % 2 == 0 ? 0 : kBetweenNodes;
    const LinkCosts& hop = kind == 0 ? costs : costs.between_nodes;
    const double factor = costs.slow_links.empty() ? 1 : costs.slow_links[sender];
    const Ticks latency = ticks_of(hop.latency, "latency");
    const auto link = [&](Seconds time, Seconds receive) {
      const Ticks transfer = ticks_of(time * factor, "transfer");
      const Ticks copied = std::min(ticks_of(receive, "receive_busy"), transfer + latency);
      return Price{transfer, latency - copied};
    };
    const std::uint32_t first = first_link_price_ + kLinkPrices * sender + kind;
    prices[first] = link(hop.transfer, costs.receive_busy);
    prices[first + kTeacher] = link(hop.teacher_transfer.value_or(hop.transfer), teacher_receive(costs));
  }
  const auto collectives = costs.vocabulary.all();
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    prices[first_collective_price_ + i].cost = ticks_of(collectives[i], "vocabulary");
  }
  return prices;
}

}  // namespace plumbline
