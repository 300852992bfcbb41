#include "bench/cuda/times/device_timer.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace plumbline {
namespace {

/// A call that waits for the device would wait for a gate that only opens after it.
constexpr std::chrono::milliseconds kLongestHold{200};

}  // namespace

/// Holds a stream until the host lets it go.
class StreamGate {
 public:
  void close(cudaStream_t stream) {
    open_ = held_too_long_ = false;
    check_cuda(cudaLaunchHostFunc(
                   stream, [](void* gate) { static_cast<StreamGate*>(gate)->hold(); }, this),
               "cudaLaunchHostFunc");
  }
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  bool held_too_long() {
    const std::lock_guard lock(mutex_);
    return held_too_long_;
  }

 private:
  /// On a thread of CUDA's.
  void hold() {
    std::unique_lock lock(mutex_);
    held_too_long_ = !changed_.wait_for(lock, kLongestHold, [this] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  bool held_too_long_ = false;
};

DeviceTimer::DeviceTimer(cudaStream_t stream) : stream_(stream), gate_(std::make_unique<StreamGate>()) {
  int device = 0;
  int cache = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  flushed_bytes_ = std::max<std::size_t>(2 * static_cast<std::size_t>(cache), std::size_t{1} << 20);
  check_cuda(cudaMalloc(&flushed_, flushed_bytes_), "cudaMalloc");
}

DeviceTimer::~DeviceTimer() {
  (void)cudaStreamSynchronize(stream_);
  (void)cudaFree(flushed_);
}

void DeviceTimer::empty_cache() {
  check_cuda(cudaMemsetAsync(flushed_, 0, flushed_bytes_, stream_), "cudaMemsetAsync");
}

double DeviceTimer::elapsed() const {
  float milliseconds = 0;
  check_cuda(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
  check_cuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

Seconds DeviceTimer::sample(const std::function<void()>& call, bool& held_too_long) {
  empty_cache();
  if (!held_too_long) gate_->close(stream_);
  check_cuda(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
  call();
  check_cuda(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
  gate_->open();
  const double seconds = elapsed();
  held_too_long = held_too_long || gate_->held_too_long();
  return {seconds};
}

DeviceTime DeviceTimer::burst(const std::function<void()>& call, const SteadyLimits& limits) {
  call();
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  bool waits = false;
  static_cast<void>(sample(call, waits));
  SteadySamples samples(limits);
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // Emptying the cache takes longer than short calls do.
  while (!samples.enough() && (samples.count() < limits.fewest || passed() < 4 * limits.longest.value)) {
    samples.add(sample(call, waits));
  }
  return {samples.median(), samples.noise(), samples.count(), waits};
}

Seconds DeviceTimer::sustained(const std::function<void()>& call, Seconds duration) {
  constexpr int kWays = 2;  // two halves, the second of which counts
  call();
  check_cuda(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
  call();
  check_cuda(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
  const double once = std::max(elapsed(), 1e-6);
  const int calls = static_cast<int>(std::clamp(duration.value / kWays / once, 1.0, 1e5));
  double last = 0;
  for (int half = 0; half < kWays; ++half) {
    check_cuda(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) call();
    check_cuda(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
    last = elapsed() / calls;
  }
  return {last};
}

}  // namespace plumbline
