// When collectives and copies ran on the device, and for how long its computation waited: events around them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/backends/nccl/device_events.hpp"
#include "core/run/collective.hpp"
#include "core/run/lane_notes.hpp"

namespace plumbline {

/// Lanes of one step. A collective begins here when its stream reaches it, which may be before other members
/// come.
class DeviceLanes {
 public:
  /// Forgets all; no noted call may be in progress.
  void clear();
  /// Begin of the next call put into `stream`. `awaited`: it is the stream of computation, which waits for
  /// all of it.
  std::size_t begin(LaneGroup group, cudaStream_t stream, bool awaited = false);
  void end(std::size_t span, cudaStream_t stream);
  /// Around the place where `compute` waits for it.
  void begin_wait(std::size_t span, cudaStream_t compute);
  void end_wait(std::size_t span, cudaStream_t compute);
  /// Spans of the waited-for calls, in times since `base`. All streams must have finished.
  std::vector<LaneSpan> since(const DeviceEvent& base) const;
  /// Times of a call of this step on a clock that showed `time` when the device was at `reached`. All streams
  /// must have finished before that event. The wait's are 0 if nothing waited for the call.
  TicketTimes times_of(std::size_t span, const DeviceEvent& reached, Seconds time) const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Noted {
    LaneGroup group;
    bool awaited = false;
    std::size_t begin = kNone, end = kNone, wait_begin = kNone, wait_end = kNone;  // events
  };
  /// Null for one of an earlier step.
  Noted* find(std::size_t span);
  std::size_t record(cudaStream_t stream);
  static Seconds between(cudaEvent_t from, cudaEvent_t to);

  std::vector<std::unique_ptr<DeviceEvent>> events_;
  std::size_t in_use_ = 0;
  std::vector<Noted> noted_;
  std::size_t first_ = 0;  // number of noted_[0]
};

}  // namespace plumbline
