#include "analysis/predict/slower_ranks.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {

Costs with_slower_ranks(Costs costs, const Schedule& schedule, const std::vector<double>& longer) {
  if (longer.size() != static_cast<std::size_t>(schedule.ranks)) {
    throw InputError(fmt::format("slower ranks: found factors of {} pipeline ranks, expected {}",
                                 longer.size(), schedule.ranks));
  }
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const double factor = longer[static_cast<std::size_t>(schedule.rank_of_stage[stage])];
    StageCosts& cost = costs.stages[stage];
    for (Seconds StageCosts::*part :
         {&StageCosts::forward, &StageCosts::backward, &StageCosts::backward_input,
          &StageCosts::backward_weight, &StageCosts::teacher_forward, &StageCosts::vocab_forward,
          &StageCosts::vocab_backward, &StageCosts::input_forward, &StageCosts::input_backward,
          &StageCosts::first_forward, &StageCosts::last_backward, &StageCosts::reduce_gradients,
          &StageCosts::reduce_embedding, &StageCosts::optimizer}) {
      cost.*part = cost.*part * factor;
    }
    // The cost that all stages share, made longer on this one.
    cost.reduce_gradients += costs.reduce_gradients * (factor - 1);
    cost.reduce_embedding += costs.reduce_embedding * (factor - 1);
    cost.optimizer += costs.optimizer * (factor - 1);
  }
  return costs;
}

}  // namespace plumbline
