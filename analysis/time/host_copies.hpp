// Times of copies between a device and its host.
#pragma once

#include "analysis/time/action_time.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Copy time on an accelerator at its host_bandwidth; ranks on processors copy in memory.
Seconds host_copy_time(Bytes bytes, const HardwareProfile& hardware, const Load& load);

/// Those of an action on a stage: F's to the host, B's and I's from there.
HostCopies host_copies(const StageShape& shape, ActionType type, const HardwareProfile& hardware,
                       const Load& load);

}  // namespace plumbline
