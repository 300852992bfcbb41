// Everything the stages of one rank share: memory, shapes, token ids, units under way.
#pragma once

#include "bench/training/context.hpp"
#include "bench/training/parameter_memory.hpp"
#include "bench/training/unit_gradients.hpp"
#include "bench/training/unit_values.hpp"

namespace plumbline::training {

struct RankResources {
  TrainingContext context;
  const Placement placement;
  const RankParameters parameters;
  ParameterMemory memory;
  SharedBuffers shared;
  UnitValues values;
  UnitGradients gradients;
  Tensor inputs, targets;  // (M, T) token ids, where a first or last stage needs them
};

}  // namespace plumbline::training
