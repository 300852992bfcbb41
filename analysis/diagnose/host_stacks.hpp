// Work of each thread of the host at every moment of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/diagnose/step_windows.hpp"
#include "analysis/diagnose/time_share.hpp"
#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

inline constexpr std::uint32_t kNoSlice = ~std::uint32_t{0};

/// Work of an operator and of those that it is called by.
struct HostWork {
  std::optional<TimeShare> share;    // nothing: annotations only
  bool communicates = false;         // a collective
  bool synchronises = false;         // a wait for the device
  std::uint32_t op = kNoSlice;       // innermost operator
  std::uint32_t message = kNoSlice;  // innermost slice with arguments of a collective
};

/// A stretch of time of one thread with the same innermost slice.
struct HostPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  HostWork work;
};

struct HostStacks {
  std::vector<HostPiece> pieces;  // within the step, by thread
  /// Launching work by correlation; of the whole trace, since kernels run after their step has ended.
  std::unordered_map<std::int64_t, HostWork> launches;
};

HostStacks host_stacks(const ProfileTrace& trace, const StepWindow& step);

}  // namespace plumbline
