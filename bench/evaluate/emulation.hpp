// The machine that the emulated backend emulates: a hardware profile as the times of calls and messages.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/config/run_config.hpp"
#include "core/run/host_lane.hpp"
#include "core/schedule/schedule.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {

/// Time of an operator call on a device of its own that is `slowdown` times as slow as others of its kind.
/// The profile is copied.
CallTime emulated_call_time(const RunConfig& config, const HardwareProfile& hardware, double slowdown = 1);

/// Time of copies to and from the host. The profile is copied.
HostCopyTime emulated_host_copies(const HardwareProfile& hardware);

/// Time of messages and collectives of a run with this layout. The profile is copied.
EmulatedLinks emulated_links(const HardwareProfile& hardware, const Layout& layout);

/// The configuration for an emulated rank: without a memory budget its tensors get the tensor_budget() of the
/// device.
RunConfig on_emulated_device(const RunConfig& config, const Schedule& schedule,
                             const HardwareProfile& hardware, int rank);

}  // namespace plumbline
