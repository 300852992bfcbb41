#include "bench/training/reinforcement/rollout_rank.hpp"

#include <utility>

namespace plumbline::reinforcement {

const training::RankResources& RolloutRank::make_model() {
  model_ = std::make_unique<generation::GenerationModel>(config_, operators_, messages_, arena_);
  return model_->resources();
}

void RolloutRank::draw(const generation::GenerationRequest& request, const PhaseMeter& meter,
                       std::vector<Response>& responses) {
  meter.measure(Phase::rollout, messages_, [&] {
    model_->make_cache();
    generation::GenerationResult made = continue_prompts(*model_, request, control_);
    for (std::size_t i = 0; i < responses.size(); ++i) responses[i].ids = std::move(made.sequences[i].ids);
    model_.reset();
  });
}

}  // namespace plumbline::reinforcement
