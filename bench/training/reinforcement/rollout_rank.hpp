// A rank's part in the rollout.
#pragma once

#include <memory>
#include <vector>

#include "bench/training/generate/generator.hpp"
#include "bench/training/reinforcement/step_outcome.hpp"

namespace plumbline::reinforcement {

/// The model that generates is there from make_model() to draw().
class RolloutRank {
 public:
  /// `config`: rollout_config(). `control`: values between hosts' memories, on the same ranks. All must
  /// outlive it.
  RolloutRank(const RunConfig& config, Operators& operators, Communicator& messages, Communicator& control,
              Arena& arena)
      : config_(config), operators_(operators), messages_(messages), control_(control), arena_(arena) {}

  /// With weights that are undefined. Throws OutOfMemory.
  const training::RankResources& make_model();
  /// Phase rollout: the ids of every response. Collective over the ranks that generate.
  void draw(const generation::GenerationRequest& request, const PhaseMeter& meter,
            std::vector<Response>& responses);

 private:
  const RunConfig& config_;
  Operators& operators_;
  Communicator& messages_;
  Communicator& control_;
  Arena& arena_;
  std::unique_ptr<generation::GenerationModel> model_;
};

}  // namespace plumbline::reinforcement
