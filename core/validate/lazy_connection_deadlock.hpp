// The hang of communicators that are created at the first message between two ranks.
#pragma once

#include "core/schedule/schedule.hpp"
#include "core/validate/blocked_cycle.hpp"

namespace plumbline {

/// A cycle of ranks that wait for one another under Ordering::lazy_pairs (core/validate/deadlock.hpp), or
/// nothing.
BlockedCycle find_lazy_pair_cycle(const Schedule& schedule);

}  // namespace plumbline
