// The operators of MTP modules (bench/training/mtp.md).
#pragma once

#include "analysis/work/action_parts.hpp"
#include "analysis/work/passes/layer_passes.hpp"

namespace plumbline::passes {

/// `first`: the first forward of a step.
void modules_forward(const StageShape& s, WorkBuilder& builder, bool first);
/// Last to first.
void modules_backward(const StageShape& s, WorkBuilder& builder, Passes passes);

}  // namespace plumbline::passes
