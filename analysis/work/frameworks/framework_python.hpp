// Megatron-Core's Python around the operators of a layer.
#pragma once

#include "analysis/work/framework_list.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {

/// Processor time of the layer's modules besides launches (UnitWork::host_python), where no graph has them.
/// `pass`: forward, or backward_input for the whole backward; frozen weights take as long as others.
void layer_python(const StageShape& shape, LayerPass pass, FrameworkCalls& calls);

}  // namespace plumbline
