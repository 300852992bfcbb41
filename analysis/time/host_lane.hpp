// The host that launches a part's calls, where it has to read something back from the device first.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/processor_contention.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/operator_list.hpp"

namespace plumbline {

/// Launch time of this machine's host over that of the machines which software's launch times are for.
double host_slowdown(const HardwareProfile& hardware);
/// The same of times in Python, without launches.
double python_slowdown(const HardwareProfile& hardware);

/// Times that the device waits for the host during OPT, whose calls these are.
struct UpdateWait {
  Seconds update{};    // reads of an optimizer by parameter, or its launches beyond the time of its kernels
  Seconds gathered{};  // numbers of all ranks
};
UpdateWait update_wait(const HeldStages& rank, const std::vector<OperatorCall>& calls,
                       const HardwareProfile& hardware, const Load& load);

/// Launches of one part of an action. Up to the first read (HostLaunch::reads) the host is taken to be ahead;
/// the action as a whole takes the larger of device and host anyway (time_action). At a read it waits for
/// everything that was launched. From there on a call starts when its first kernel is launched, and ends no
/// earlier than its last one.
class HostLane {
 public:
  explicit HostLane(const HardwareProfile& hardware)
      : slowdown_(host_slowdown(hardware)), python_slowdown_(python_slowdown(hardware)) {}

  /// Seconds that the device, free at `now`, is idle because of a call of `seconds`; calls in order.
  double wait(const OperatorCall& call, double now, double seconds);

 private:
  double slowdown_;
  double python_slowdown_;
  bool behind_ = false;
  double host_ = 0;  // when it is done with the launches so far
};

}  // namespace plumbline
