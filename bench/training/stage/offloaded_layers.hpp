// A stage's first layers, whose activations are on the host between forward and backward
// (bench/training/offload.md).
#pragma once

#include <cstddef>
#include <memory>

#include "bench/training/parameters/context.hpp"
#include "bench/training/stage/in_flight.hpp"
#include "core/run/host_lane.hpp"

namespace plumbline::training {

/// A rank's side of the host.
struct HostSide {
  explicit HostSide(HostLane& over) : lane(over), arena({}, over.memory()) {}

  HostLane& lane;
  Arena arena;
  Seconds waited;  // for copies, so far
};

class OffloadedLayers {
 public:
  /// For the first `layers` of a stage. Both must outlive it.
  OffloadedLayers(const TrainingContext& context, HostSide& host, std::size_t layers)
      : context_(context), host_(host), layers_(layers) {}

  /// The forward of the stage's layer is done, and with it the use of its values.
  void forward_done(std::size_t layer, MicrobatchState& state) const;
  /// Its backward (B or I) begins, as the use of its values has.
  void backward_begins(std::size_t layer, MicrobatchState& state) const;

 private:
  void wait() const;
  void start_to_host(std::size_t layer, MicrobatchState& state) const;
  void start_from_host(std::size_t layer, MicrobatchState& state) const;

  const TrainingContext& context_;
  HostSide& host_;
  const std::size_t layers_;
};

}  // namespace plumbline::training
