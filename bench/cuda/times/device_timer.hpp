// Device time of a call, without the host's launch time.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "bench/cuda/times/steady_samples.hpp"
#include "core/backends/nccl/device_events.hpp"

namespace plumbline {

class StreamGate;

/// Measurement of one call.
struct DeviceTime {
  Seconds median;
  double noise = 0;  // standard deviation ÷ mean of the samples
  int samples = 0;
  bool waits = false;  // the call waits for the device: its time includes the way to the host and back
};

/// As in nvbench. The device's cache is emptied before each sample. The stream is held until the host has
/// submitted the whole sample. Sampling stops by noise.
class DeviceTimer {
 public:
  /// `stream` is where the calls put their work; the current device is the one measured.
  explicit DeviceTimer(cudaStream_t stream);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  /// Single calls on an empty device at burst clocks. The first call is not counted: it loads and chooses.
  /// Throws Error (CUDA).
  DeviceTime burst(const std::function<void()>& call, const SteadyLimits& limits = {});
  /// Seconds per call when the device does nothing else for `duration`: the mean of the second half, at the
  /// clocks that power and temperature allow.
  Seconds sustained(const std::function<void()>& call, Seconds duration = {1});

 private:
  void empty_cache();
  Seconds sample(const std::function<void()>& call, bool& held_too_long);
  double elapsed() const;

  cudaStream_t stream_;
  DeviceEvent begin_{cudaEventDefault};
  DeviceEvent end_{cudaEventDefault};
  std::unique_ptr<StreamGate> gate_;
  void* flushed_ = nullptr;  // more memory than the cache holds
  std::size_t flushed_bytes_ = 0;
};

}  // namespace plumbline
