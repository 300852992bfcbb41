// Copies between a rank's tensors and the memory of its host, overlapped with the rank's computation.
#pragma once

#include <functional>
#include <memory>

#include "core/run/emulated_clock.hpp"
#include "core/run/lane_notes.hpp"
#include "core/tensor/arena.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline {

/// Copies follow one another on one lane. Throws Error if a transport fails.
class HostLane {
 public:
  virtual ~HostLane() = default;
  /// Memory source of a host arena.
  virtual std::unique_ptr<MemorySource> memory() = 0;
  /// Starts copying all of `from` to `to`, both contiguous and equally large, one of them in memory(). The
  /// copy begins once all computation requested so far is done. Until wait() neither may be written, and `to`
  /// not be read.
  virtual void start(const Matrix& from, const Matrix& to) = 0;
  /// Computation requested from here on runs after all started copies.
  virtual void wait() = 0;
};

/// Ranks whose own memory is the host's: a copy is done when start returns.
std::unique_ptr<HostLane> plain_host_lane();

/// Time of a copy of this many bytes.
using HostCopyTime = std::function<Seconds(Bytes)>;
/// Nothing is copied; wait() moves the clock to the end of the last copy. `notes`, if given, gets the copies
/// started before a wait as one copy.
std::unique_ptr<HostLane> emulated_host_lane(EmulatedClock& clock, HostCopyTime time,
                                             LaneNotes* notes = nullptr);

}  // namespace plumbline
