// The use of a layer's values on a tape: gathered before it, given up after it.
#pragma once

#include <functional>

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// The layer outlives the steps.
Step begin_use(const Layer& layer);
Step end_use(const Layer& layer);

/// Backward of the place where the use begins: it ends there, and the gradients of the layer's matrices are
/// done.
Plan end_backward(const Layer& layer);

/// A stage's other work where a layer's forward ends and its backward begins; may be empty.
struct LayerEnd {
  std::function<void(Pass&)> forward{}, backward{};
};
/// The end of a layer that Tape::begin_layer has begun.
void end_layer(Tape& tape, const Layer& layer, const LayerEnd& besides = {});

}  // namespace plumbline::training
