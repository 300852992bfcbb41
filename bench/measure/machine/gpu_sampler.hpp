// A GPU's clocks, power and temperature while it works, asked by a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "bench/measure/machine/nvml.hpp"
#include "bench/record/gpu_report.hpp"

namespace plumbline {

/// Looks at the GPU every `period` between start() and stop(), which may be called again and again.
class GpuSampler {
 public:
  /// `nvml` must outlive it. Nothing is sampled if it does not know the device.
  explicit GpuSampler(const Nvml& nvml, Seconds period = {0.05});
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// One look at once, then one every period.
  void start();
  void stop();
  /// State over all samples so far; nothing without any. Mean power is that of the GPU's energy counter, if
  /// it has one and 20 periods have passed; else of the samples.
  std::optional<GpuState> state() const;

 private:
  void watch();
  void look();

  const Nvml& nvml_;
  const Seconds period_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = false;
  bool end_ = false;
  GpuState seen_;
  double watts_ = 0;
  double first_joule_ = 0, last_joule_ = 0;
  Seconds first_at_, last_at_;
  std::uint64_t reasons_ = 0;
  std::thread thread_;
};

}  // namespace plumbline
