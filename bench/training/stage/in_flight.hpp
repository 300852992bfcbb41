// The micro-batches that a stage holds something of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/training/tape/frame.hpp"

namespace plumbline::training {

/// Frames are reused: taking and giving back one allocates nothing once the pipeline is full.
class InFlight {
 public:
  InFlight(int microbatches, std::size_t memories, int mixtures)
      : frames_(static_cast<std::size_t>(microbatches)),
        memories_(memories),
        mixtures_(static_cast<std::size_t>(mixtures)) {}

  /// The frame of a micro-batch, a fresh one when there is none.
  Frame& at(std::uint32_t microbatch) {
    std::unique_ptr<Frame>& frame = frames_[microbatch];
    if (!frame && !unused_.empty()) {
      frame = std::move(unused_.back());
      unused_.pop_back();
    } else if (!frame) {
      frame = std::make_unique<Frame>();
      frame->memory.resize(memories_);
      frame->mixtures.resize(mixtures_);
    }
    return *frame;
  }
  bool holds(std::uint32_t microbatch) const { return frames_[microbatch] != nullptr; }
  /// All tensors of the frame must be gone.
  void release(std::uint32_t microbatch) { unused_.push_back(std::move(frames_[microbatch])); }

 private:
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::unique_ptr<Frame>> unused_;
  std::size_t memories_;
  std::size_t mixtures_;
};

}  // namespace plumbline::training
