// States of a model that leave the device between its phases (rollout_placement: colocated).
#pragma once

#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/stage/offloaded_layers.hpp"

namespace plumbline::reinforcement {

/// Parameters and optimizer states of a model, each on the device or on the host. Gradients come and go with
/// the optimizer states and are not kept: they are 0 when they are back. Places on the host stay. Vectors and
/// numbers without gradients, of which layers keep views, stay on the device, as do vectors' gradients.
class MovableStates {
 public:
  /// All are on the device. Without a host they stay there, and calls have no effect. References are kept.
  MovableStates(training::RankResources& model, training::HostSide* host);
  MovableStates(const MovableStates&) = delete;
  MovableStates& operator=(const MovableStates&) = delete;

  /// Nothing if they are there. Throws OutOfMemory.
  void load_parameters();
  void load_optimizer();
  /// Nothing if they are not.
  void store_parameters();
  void store_optimizer();
  void load() {
    load_parameters();
    load_optimizer();
  }
  void store() {
    store_optimizer();
    store_parameters();
  }
  /// Frees parameters that are as they were loaded.
  void free_parameters();

 private:
  struct Place {
    Tensor* device;
    Tensor host;
    Category category;
    const char* holder;
    std::int64_t elements;
    DType type;
  };
  static void add(Tensor& tensor, std::vector<Place>& places);
  void load_all(const std::vector<Place>& places);
  void allocate(const Place& place);
  void store_all(std::vector<Place>& places);

  training::RankResources& model_;
  training::HostSide* host_;
  std::vector<Place> parameters_, optimizer_, gradients_;
};

}  // namespace plumbline::reinforcement
