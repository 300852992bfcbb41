// F, B, I, W, TF and the vocabulary's passes of a stage of plumbline's own step (bench/training).
#pragma once

#include "analysis/work/operator_list.hpp"

namespace plumbline::passes {

/// work_of() of plumbline's own step.
ActionWork own_work(const StageShape& shape, ActionType type);

}  // namespace plumbline::passes
