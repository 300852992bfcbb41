// Steps whose loss or gradients are no numbers any more.
#pragma once

#include <functional>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// A rank's step, run on a program that wraps the rank's stages.
using StepRunner = std::function<void(StageProgram& program)>;

/// Repeats a step with a loss or gradient norm that is not finite. Throws Error with the first place where
/// such a value appeared: a message between stages or the loss of a micro-batch. With a gradient norm that is
/// not finite the weights are still those that the step began with (StepEnd::update). `loss`: of the step;
/// `step` counts from 1. Collective over the world.
[[noreturn]] void explain_not_finite(RankStages& stages, Communicator& control, double loss, int step,
                                     int steps, const StepRunner& run);

}  // namespace plumbline::training
