// The machine that the emulated backend stands for: a hardware profile as the times of calls and messages.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/config/run_config.hpp"
#include "core/run/host_lane.hpp"
#include "core/schedule/schedule.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline {

/// What an operator call of a run takes on a device of its own that takes `slowdown` times as long as others of its kind. The
/// profile is copied.
CallTime emulated_call_time(const RunConfig& config, const HardwareProfile& hardware, double slowdown = 1);

/// What copies to and from the host take. The profile is copied.
HostCopyTime emulated_host_copies(const HardwareProfile& hardware);

/// What messages and collectives of a run with this layout take. The profile is copied.
EmulatedLinks emulated_links(const HardwareProfile& hardware, const Layout& layout);

/// The configuration as an emulated rank runs it: without a memory budget its tensors have what tensor_budget() leaves them of
/// the device.
RunConfig on_emulated_device(const RunConfig& config, const Schedule& schedule,
                             const HardwareProfile& hardware, int rank);

}  // namespace plumbline
