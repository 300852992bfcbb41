// Replays the allocations of one action in order: its net change, and the first moment of its largest total.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor/arena.hpp"

namespace plumbline {

/// Allocations and frees of one action, reduced to the figures that a walk over the schedule needs.
struct ActionProfile {
  MemoryBreakdown net;   // after the action, relative to before
  MemoryBreakdown peak;  // at the first moment of its largest total, relative to before; 0 if never above
};

/// One allocation, or, with negative bytes, one that ends; or a place where an action waits for expert rows.
struct MemoryStep {
  Category category = Category::workspace;
  std::int64_t bytes = 0;
  bool exchange = false;
};

class Replay {
 public:
  Replay() = default;
  /// Writes every step to `steps`, too.
  explicit Replay(std::vector<MemoryStep>& steps) : steps_(&steps) {}

  bool writes_steps() const { return steps_ != nullptr; }
  void exchange() {
    if (steps_ != nullptr) steps_->push_back({.exchange = true});
  }
  void take(Category category, std::int64_t bytes) {
    if (steps_ != nullptr) steps_->push_back({category, bytes});
    now_[category].value += bytes;
    total_ += bytes;
    if (total_ > peak_total_) {
      peak_total_ = total_;
      peak_ = now_;
    }
  }
  void give(Category category, std::int64_t bytes) {
    if (steps_ != nullptr) steps_->push_back({category, -bytes});
    now_[category].value -= bytes;
    total_ -= bytes;
  }
  ActionProfile profile() const { return {now_, peak_}; }
  /// Appends `part` `times` times.
  void append(const ActionProfile& part, std::int64_t times) {
    const std::int64_t left = part.net.total().value;
    // If the part leaves memory behind, its last repetition is the fullest, else its first.
    const std::int64_t before = left > 0 ? times - 1 : 0;
    const std::int64_t highest = total_ + before * left + part.peak.total().value;
    for (std::size_t c = 0; c < now_.categories.size(); ++c) {
      const Bytes now = now_.categories[c];
      if (highest > peak_total_)
        peak_.categories[c] = now + before * part.net.categories[c] + part.peak.categories[c];
      now_.categories[c] = now + times * part.net.categories[c];
    }
    peak_total_ = std::max(peak_total_, highest);
    total_ += times * left;
  }

 private:
  MemoryBreakdown now_;
  MemoryBreakdown peak_;
  std::int64_t total_ = 0;
  std::int64_t peak_total_ = 0;
  std::vector<MemoryStep>* steps_ = nullptr;
};

/// Values of units that an action gathers (ZeRO 3), with `ahead` one ahead of their use. Without units, every
/// call does nothing.
class GatheredUnits {
 public:
  GatheredUnits(Replay& replay, std::vector<std::int64_t> bytes_in_order_of_use, bool ahead)
      : replay_(replay), bytes_(std::move(bytes_in_order_of_use)) {
    if (ahead) gather();
  }
  void begin_use() { gather(); }
  void end_use() {
    if (used_ < bytes_.size()) replay_.give(Category::parameters, bytes_[used_++]);
  }
  /// Skips `units` units that have already been done; the units gathered then are equally large.
  void leave_out(std::size_t units) {
    gathered_ += units;
    used_ += units;
  }
  std::size_t used() const { return used_; }

 private:
  void gather() {
    if (gathered_ < bytes_.size()) replay_.take(Category::parameters, bytes_[gathered_++]);
  }

  Replay& replay_;
  std::vector<std::int64_t> bytes_;
  std::size_t gathered_ = 0;
  std::size_t used_ = 0;
};

/// The one reduce-scatter of a rank that may be in progress, and the memory it holds until it is finished.
struct ReductionUnderWay {
  std::int64_t full = 0;   // bytes of the unit's whole gradient (ZeRO 2 and 3)
  std::int64_t piece = 0;  // bytes of the owned piece that is received

  void start(Replay& replay, std::int64_t full_bytes, std::int64_t piece_bytes) {
    finish(replay);
    replay.take(Category::gradients, piece_bytes);
    full = full_bytes;
    piece = piece_bytes;
  }
  void finish(Replay& replay) {
    replay.give(Category::gradients, piece);
    replay.give(Category::gradients, full);
    full = piece = 0;
  }
};

}  // namespace plumbline
