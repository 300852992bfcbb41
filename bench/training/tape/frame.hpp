// The tensors of one micro-batch that is in progress on a stage.
#pragma once

#include <vector>

#include "bench/training/feed_forward/mixture_state.hpp"
#include "bench/training/linear/linear_operand.hpp"

namespace plumbline::training {

struct Frame {
  std::vector<LinearOperand> memory;         // by Slot::memory
  std::vector<MixtureState> mixtures;        // of the stage's MoE layers
  std::vector<std::vector<Tensor>> on_host;  // of offloaded layers, the tensors on the host
};

}  // namespace plumbline::training
