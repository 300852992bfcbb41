#include "analysis/time/host_lane.hpp"

#include <algorithm>

#include "analysis/time/operator_time.hpp"

namespace plumbline {

double host_slowdown(const HardwareProfile& hardware) {
  return hardware.accelerator() == nullptr ? 1 : hardware.accelerator()->constants.device.host.slowdown;
}

UpdateWait update_wait(const HeldStages& rank, const std::vector<OperatorCall>& calls,
                       const HardwareProfile& hardware, const Load& load) {
  const UpdateLaunches host = update_launches(rank);
  const double slowdown = host_slowdown(hardware);
  UpdateWait wait{{}, host.gathered * slowdown};
  if (host.all.value == 0 || calls.empty()) return wait;
  const Seconds kernels = time_of(calls.front(), hardware, load);
  wait.update = std::max(host.idle * slowdown, host.all * slowdown - kernels);
  return wait;
}

double python_slowdown(const HardwareProfile& hardware) {
  const double own =
      hardware.accelerator() == nullptr ? 0 : hardware.accelerator()->constants.device.host.python_slowdown;
  return own > 0 ? own : host_slowdown(hardware);
}

double HostLane::wait(const OperatorCall& call, double now, double seconds) {
  if (call.launch.reads) {
    behind_ = true;
    host_ = now;
  }
  if (!behind_) return 0;
  const double products = call.launch.product_s > 0 ? static_cast<double>(call.as<GemmCall>()->batch) : 1;
  const double python = call.launch.python_before.value * python_slowdown_;
  const double first = host_ + python + call.launch.before.value * slowdown_ + call.launch.product_s;
  host_ = first + (products - 1) * call.launch.product_s;
  const double end = std::max(std::max(now, first) + seconds, host_ + seconds / products);
  host_ += call.launch.behind.value * slowdown_ + call.launch.python_behind.value * python_slowdown_;
  return end - now - seconds;
}

}  // namespace plumbline
