// Position of each action of a schedule in its rank's list.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Position by (type, stage, micro-batch); the schedule must pass check_ranges(). Linear to build.
class ActionIndex {
 public:
  static constexpr std::int32_t kAbsent = -1;

  explicit ActionIndex(const Schedule& schedule);

  std::int32_t position(ActionType type, int stage, std::uint32_t microbatch) const {
    const auto& positions = positions_[static_cast<std::size_t>(type)];
    if (positions.empty()) return kAbsent;
    return positions[static_cast<std::size_t>(stage) * microbatches_ + microbatch];
  }
  bool has(ActionType type) const { return !positions_[static_cast<std::size_t>(type)].empty(); }

  /// The first action that appears a second time, as (rank, position); rank is -1 when there is none.
  struct Duplicate {
    int rank = -1;
    int position = 0;
    int first_position = 0;
  };
  const Duplicate& duplicate() const { return duplicate_; }

 private:
  std::size_t microbatches_;
  std::array<std::vector<std::int32_t>, kActionTypes> positions_;
  Duplicate duplicate_;
};

}  // namespace plumbline
