// Layers that only run forward.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/frame.hpp"
#include "bench/training/tape/program.hpp"

namespace plumbline::training {

/// A stage's layers: a layer's tensors are freed at its end, all but its output.
class ForwardLayers {
 public:
  /// `output`: where the last layer's goes; empty: into a tensor of its own.
  ForwardLayers(RankResources& rank, const StageEntry& entry, const Matrix& output = {});
  ForwardLayers(const ForwardLayers&) = delete;
  ForwardLayers& operator=(const ForwardLayers&) = delete;

  /// Units whose values a forward uses, for its UnitValues.
  const std::vector<int>& units() const { return program_.units; }
  const std::vector<int>& expert_units() const { return program_.expert_units; }
  /// `stream` (R, h). Returns the last layer's output; empty if that has a place.
  Tensor run(std::uint32_t microbatch, Tensor stream);

 private:
  RankResources& rank_;
  std::vector<Layer> layers_;
  Tape tape_;
  Slot input_, output_;
  Program program_;
  Frame frame_;
};

}  // namespace plumbline::training
