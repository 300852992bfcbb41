// Collectives of one rank on the lanes of their groups: what runs alongside its computation.
#pragma once

#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// One collective over `group`. The rank waits for the last `waited` of it; the rest is hidden behind computation.
struct LaneSpan {
  Group group = Group::tensor;
  Seconds start;  // it began: its lane was free
  Seconds end;
  Seconds waited;
};

}  // namespace plumbline
