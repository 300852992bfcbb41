// CUDA events and streams that free themselves, and events that are used again.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/backends/nccl/check.hpp"

namespace plumbline {

/// Whose blocks a multiprocessor that becomes free takes first; blocks that run are not interrupted.
enum class StreamPriority { normal, highest };

/// Owns a stream that does not wait for the default stream.
class DeviceStream {
 public:
  explicit DeviceStream(StreamPriority priority = StreamPriority::normal) {
    int lowest = 0;
    int highest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                            priority == StreamPriority::highest ? highest : lowest),
               "cudaStreamCreateWithPriority");
  }
  ~DeviceStream() { (void)cudaStreamDestroy(stream_); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Owns an event. `flags` as for cudaEventCreateWithFlags.
class DeviceEvent {
 public:
  explicit DeviceEvent(unsigned flags = cudaEventDisableTiming) {
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  }
  ~DeviceEvent() { (void)cudaEventDestroy(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// When the device reaches the end of one operation.
struct EndEvent {
  DeviceEvent event;
  std::atomic<bool> recorded{false};

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event.get(), stream), "cudaEventRecord");
    recorded.store(true, std::memory_order_release);
  }
  /// False before record(), and while the device has not reached it.
  bool reached() const {
    return recorded.load(std::memory_order_acquire) && cudaEventQuery(event.get()) != cudaErrorNotReady;
  }
};

/// Gives out EndEvents and takes them back when nobody holds them; they may be dropped on any thread, and
/// after the pool has gone.
class EndEventPool {
 public:
  std::shared_ptr<EndEvent> take() {
    std::unique_ptr<EndEvent> event;
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->free.empty()) {
        event = std::move(shared_->free.back());
        shared_->free.pop_back();
      }
    }
    if (!event) event = std::make_unique<EndEvent>();
    event->recorded.store(false, std::memory_order_relaxed);
    return {event.release(), [shared = shared_](EndEvent* used) {
              std::unique_ptr<EndEvent> back(used);
              const std::lock_guard lock(shared->mutex);
              shared->free.push_back(std::move(back));
            }};
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<std::unique_ptr<EndEvent>> free;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace plumbline
