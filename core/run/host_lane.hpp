// Copies between a rank's tensors and the memory of its host, alongside what the rank computes.
#pragma once

#include <functional>
#include <memory>

#include "core/run/emulated_clock.hpp"
#include "core/run/lane_notes.hpp"
#include "core/tensor/arena.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// Copies follow one another on one lane. Throws Error where a transport fails.
class HostLane {
 public:
  virtual ~HostLane() = default;
  /// Where an arena of the host's takes its memory from.
  virtual std::unique_ptr<MemorySource> memory() = 0;
  /// Starts copying all of `from` to `to`, both contiguous and equally large, one of them in memory(): once everything is
  /// done that the rank has been asked to compute so far. Until wait() nobody may write either or read `to`.
  virtual void start(const Matrix& from, const Matrix& to) = 0;
  /// What the rank is asked to compute from here on comes after all that was started.
  virtual void wait() = 0;
};

/// Ranks whose own memory is the host's: a copy is done when start returns.
std::unique_ptr<HostLane> plain_host_lane();

/// What a copy of so many bytes takes.
using HostCopyTime = std::function<Seconds(Bytes)>;
/// Nothing is copied; wait() moves the clock to the end of the last copy. `notes`, where given, gets what was started before a
/// wait as one copy.
std::unique_ptr<HostLane> emulated_host_lane(EmulatedClock& clock, HostCopyTime time,
                                             LaneNotes* notes = nullptr);

}  // namespace plumbline
