// The rule of validation about explicit transfers: every hop between ranks once, in its place.
#pragma once

#include "core/schedule/action_index.hpp"
#include "core/schedule/schedule.hpp"
#include "core/validate/fault.hpp"

namespace plumbline {

/// The first hop between ranks without its SEND after its producer or its RECV before its use, or within a
/// rank with either. An empty rule when there is none, or no transfers at all.
Fault find_transfer_fault(const Schedule& schedule, const ActionIndex& index);

}  // namespace plumbline
