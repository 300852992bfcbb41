#include "bench/measure/machine/gpu_sampler.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/run_parallel.hpp"
#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr double kPeriodsCounted = 20;

}  // namespace

GpuSampler::GpuSampler(const Nvml& nvml, Seconds period) : nvml_(nvml), period_(period) {
  if (nvml_.there()) thread_ = thread_if_possible([this] { watch(); });
}

GpuSampler::~GpuSampler() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuSampler::start() {
  {
    const std::lock_guard lock(mutex_);
    running_ = true;
  }
  wake_.notify_all();
}

void GpuSampler::stop() {
  const std::lock_guard lock(mutex_);
  running_ = false;
}

std::optional<GpuState> GpuSampler::state() const {
  const std::lock_guard lock(mutex_);
  if (seen_.samples == 0) return std::nullopt;
  GpuState state = seen_;
  state.mean_watt = watts_ / state.samples;
  // The counter misses no peak, but moves in steps of tens of milliseconds.
  if (last_joule_ > first_joule_ && last_at_ - first_at_ >= period_ * kPeriodsCounted)
    state.mean_watt = (last_joule_ - first_joule_) / (last_at_ - first_at_).value;
  state.throttled = throttle_reasons(reasons_);
  return state;
}

void GpuSampler::watch() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    wake_.wait(lock, [this] { return running_ || end_; });
    if (end_) return;
    look();
    wake_.wait_for(lock, std::chrono::duration<double>(period_.value), [this] { return end_; });
  }
}

void GpuSampler::look() {
  const std::optional<NvmlLook> now = nvml_.look();
  if (!now) return;
  seen_.least_sm_mhz = seen_.samples == 0 ? now->sm_mhz : std::min(seen_.least_sm_mhz, now->sm_mhz);
  seen_.most_sm_mhz = std::max(seen_.most_sm_mhz, now->sm_mhz);
  seen_.most_memory_mhz = std::max(seen_.most_memory_mhz, now->memory_mhz);
  seen_.most_watt = std::max(seen_.most_watt, now->watt);
  seen_.most_celsius = std::max(seen_.most_celsius, now->celsius);
  watts_ += now->watt;
  last_joule_ = now->joule;
  last_at_ = monotonic_now();
  if (seen_.samples == 0) {
    first_joule_ = last_joule_;
    first_at_ = last_at_;
  }
  reasons_ |= now->reasons;
  ++seen_.samples;
}

}  // namespace plumbline
