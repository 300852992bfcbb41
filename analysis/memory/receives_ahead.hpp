// overlap_p2p_comm (bench/training/overlap.md): a receive's buffer is there one computation before its RECV.
#pragma once

#include <vector>

#include "core/schedule/repeated_schedule.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// The step with every RECV moved before the compute action that precedes it, if any: the order in which
/// buffers are allocated. `pairs`: overlapped pairs run together, and begin with the receives behind them. A
/// repeated step becomes three copies, whose peak equals that of many.
RepeatedSchedule with_receives_ahead(const RepeatedSchedule& step, bool pairs);

/// Memory of every action of with_receives_ahead(actions), during and after it, in the order of `actions`. A
/// RECV posted ahead changes nothing at its original place.
void in_order_of_actions(const std::vector<Action>& actions, bool pairs, std::vector<MemorySample>& timeline);

}  // namespace plumbline
