// What a first forward waits for gathers of parameters that hooks of its modules start (Megatron-Core).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "analysis/time/stage/cost_lines.hpp"

namespace plumbline {

/// Buffers whose buckets follow one another: parameters of all data ranks, and those of spread experts.
enum class GatherChain { rest, experts };

/// A module whose hook waits for its parameters, before it computes.
struct HookedModule {
  GatherChain chain = GatherChain::rest;
  std::int64_t tensors = 0;   // its parameters, alike
  std::int64_t elements = 0;  // of one of them
  double computes_s = 0;      // until the next module's hook
};

/// The modules of a stage in forward order. `forward_s`: of one micro-batch; `lines` of this forward, in
/// order of calls, say how much of it is in a layer's attention, fc1 and fc2.
std::vector<HookedModule> hooked_modules(const StageShape& shape, double forward_s,
                                         const std::vector<CostLine>& lines);

/// Seconds that the modules wait. A hook waits for the buckets of its parameters one after the other, and
/// starts each bucket's successor when the bucket has arrived, behind what is computed until then
/// (finish_param_sync of param_and_grad_buffer.py; a collective waits for the current stream): of a module
/// with several buckets only the first is gathered ahead. Buckets are closed from the last parameter on, as
/// soon as they have `least` elements (distributed_data_parallel.py).
/// `gather_s(chain, share)`: seconds of this share of all the chain's elements.
double gather_waits(const std::vector<HookedModule>& modules, double least,
                    const std::function<double(GatherChain, double)>& gather_s);

}  // namespace plumbline
