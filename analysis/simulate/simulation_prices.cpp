// What the nodes of a plan cost.
#include "analysis/simulate/simulation_prices.hpp"

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

}  // namespace

std::vector<SimulationPlan::Price> SimulationPlan::prices(const Costs& costs) const {
  if (costs.stages.size() != static_cast<std::size_t>(stages_)) {
    throw InputError(
        fmt::format("costs: {} stages given, the schedule has {}", costs.stages.size(), stages_));
  }
  std::vector<Price> prices(first_collective_price_ + kVocabularyCalls, Price{0, 0});
  prices[kReceiveCopy].cost = costs.receive_busy.value;
  const std::vector<double> actions = action_prices(costs);
  for (std::size_t i = 0; i < actions.size(); ++i) prices[kFixed + i].cost = actions[i];
  for (std::size_t stage = 0; stage < last_backward_.size(); ++stage) {
    prices[first_last_price_ + stage].cost =
        actions[stage * kTypes + static_cast<std::size_t>(last_backward_[stage])] +
        costs.stages[stage].last_backward.value;
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    prices[first_pair_price_ + i].cost =
        (prices[pairs_[i].first].cost + prices[pairs_[i].second].cost) * costs.overlap_factor;
  }
  // The receiver's part of a transfer is done by the receiver when it reaches it, not by the link.
  for (const std::uint32_t kind : {0U, kBetweenNodes}) {
    const LinkCosts& hop = kind == 0 ? costs : costs.between_nodes;
    const auto link = [&](Seconds transfer, Seconds receive) {
      const double copied = std::min(receive.value, (transfer + hop.latency).value);
      return Price{transfer.value, hop.latency.value - copied};
    };
    prices[first_link_price_ + kind] = link(hop.transfer, costs.receive_busy);
    prices[first_link_price_ + kind + kTeacher] =
        link(hop.teacher_transfer.value_or(hop.transfer), teacher_receive(costs));
  }
  const auto collectives = costs.vocabulary.all();
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    prices[first_collective_price_ + i].cost = collectives[i].value;
  }
  return prices;
}

std::vector<double> action_prices(const Costs& costs) {
  std::vector<double> prices(costs.stages.size() * kTypes, 0.0);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& c = costs.stages[stage];
    const auto set = [&](ActionType type, Seconds cost) {
      prices[stage * kTypes + static_cast<std::size_t>(type)] = cost.value;
    };
    set(ActionType::forward, c.forward);
    set(ActionType::backward, c.backward);
    set(ActionType::backward_input, c.backward_input);
    set(ActionType::backward_weight, c.backward_weight);
    set(ActionType::receive_forward, costs.receive_busy);
    set(ActionType::receive_backward, costs.receive_busy);
    set(ActionType::receive_teacher, teacher_receive(costs));
    set(ActionType::teacher_forward, c.teacher_forward);
    set(ActionType::vocab_forward, c.vocab_forward);
    set(ActionType::vocab_backward, c.vocab_backward);
    set(ActionType::input_forward, c.input_forward);
    set(ActionType::input_backward, c.input_backward);
    set(ActionType::reduce_gradients, costs.reduce_gradients + c.reduce_gradients);
    set(ActionType::reduce_embedding, costs.reduce_embedding + c.reduce_embedding);
    set(ActionType::optimizer, costs.optimizer + c.optimizer);
  }
  return prices;
}

}  // namespace plumbline
