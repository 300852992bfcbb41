// overlap_p2p_comm (bench/training/overlap.md): a receive's buffer is there one computation before its RECV.
#pragma once

#include <vector>

#include "core/schedule/repeated_schedule.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// The step with every RECV in front of the action before it that is no transfer, where there is one: the order in which
/// buffers are taken. `pairs`: overlapped pairs run together, and begin with the receives behind them. Of a step that repeats itself three copies, which hold at their peak what many do.
RepeatedSchedule with_receives_ahead(const RepeatedSchedule& step, bool pairs);

/// What every action of with_receives_ahead(actions) holds during and after it, as it is seen in the order of `actions`:
/// a RECV that was posted ahead changes nothing any more.
void in_order_of_actions(const std::vector<Action>& actions, bool pairs, std::vector<MemorySample>& timeline);

}  // namespace plumbline
