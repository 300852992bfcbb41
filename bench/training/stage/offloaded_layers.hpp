// A stage's first layers, whose activations are on the host between forward and backward
// (bench/training/offload.md).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bench/training/parameters/context.hpp"
#include "bench/training/tape/frame.hpp"
#include "core/run/host_lane.hpp"

namespace plumbline::training {

/// A rank's side of the host.
struct HostSide {
  explicit HostSide(HostLane& over) : lane(over), arena({}, over.memory()) {}

  HostLane& lane;
  Arena arena;
  Seconds waited;  // for copies, so far
};

/// Tensors that a layer keeps from its forward to its backward, its input included.
struct KeptByLayer {
  std::vector<int> memory;  // of a frame
  int mixture = -1;         // in a frame, or none
};

class OffloadedLayers {
 public:
  /// For the first `layers` of a stage. Both must outlive it.
  OffloadedLayers(const TrainingContext& context, HostSide& host, std::size_t layers)
      : context_(context), host_(host), layers_(layers) {}

  std::size_t layers() const { return layers_; }
  /// Before the first forward: of the layers, in order.
  void set_kept(std::vector<KeptByLayer> kept) { kept_ = std::move(kept); }

  /// The forward of the stage's layer is done, and with it the use of its values.
  void forward_done(std::size_t layer, Frame& frame) const;
  /// Its backward (B or I) begins, as the use of its values has.
  void backward_begins(std::size_t layer, Frame& frame) const;

 private:
  void wait() const;
  template <class Visit>
  void for_each_kept(std::size_t layer, Frame& frame, const Visit& visit) const;
  void start_to_host(std::size_t layer, Frame& frame) const;
  void start_from_host(std::size_t layer, Frame& frame) const;

  const TrainingContext& context_;
  HostSide& host_;
  const std::size_t layers_;
  std::vector<KeptByLayer> kept_;
};

}  // namespace plumbline::training
