// Reads a rank's GPU at the moments that device_readings.hpp names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/cuda_device.hpp"
#include "bench/cuda/device_meter.hpp"
#include "bench/cuda/device_readings.hpp"
#include "core/run/step_observer.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {

/// Used in this order: opens the device, connects, watches the steps. Kernels are loaded at their first
/// launch (lazy loading, CUDA's default since 12.2). All kernels of the steps have been loaded when the last
/// step is read. So nothing has to be forced, and unused kernels take no memory.
class DeviceMemoryWatch final : public StepObserver {
 public:
  explicit DeviceMemoryWatch(const DevicePlace& place) : place_(place), meter_(place.device()) {}

  /// Makes the context, then the operators (on this rank's device, whichever `options` name), in turns with
  /// the ranks of the same device. Collective over the host.
  std::unique_ptr<Operators> open(CudaOptions options = {});
  /// `connect` makes the communicators and uses each. Collective over the host.
  void connect(const std::function<void()>& connect);
  /// Reserved memory of the tensors, read as long as steps are taken.
  void tensors(std::function<DevicePoolUse()> use) { tensors_ = std::move(use); }
  /// Each step's scratch counts by itself: products that are timed in the first leave copies of C.
  void step_begins(int index) override;
  /// Reads again: the last step stays.
  void step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) override;

  /// The device now.
  DeviceReading read() const;
  const DeviceReadings& readings() const { return readings_; }
  std::string source() const { return meter_.source(); }
  const Nvml& nvml() const { return meter_.nvml(); }

 private:
  const DevicePlace& place_;
  DeviceMeter meter_;
  std::function<DevicePoolUse()> tensors_;
  DeviceReadings readings_;
};

}  // namespace plumbline
