// Intervals that compete for a step's time: at every moment the strongest one has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/diagnose/step_windows.hpp"

namespace plumbline {

/// Kinds of claims, the strongest first.
enum class ClaimKind : std::uint8_t {
  garbage,
  loading,
  product,
  attention,
  optimizer,
  other,
  tensor,  // communication from here
  pipeline,
  data,
  unknown,
  bubble,
  copy,  // between host and device
  // Actions of plumbline's own traces, whose exposed communication is known apart:
  action,
  action_optimizer,
  // While the device has nothing to do:
  idle_garbage,
  idle_loading,
  idle_synchronised,
  idle_in_operator,
  idle_outside,   // there is a host, and it runs no operator
  idle_pipeline,  // no action of an own trace
};
inline constexpr std::size_t kClaimKinds = 20;

struct TimeClaim {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  ClaimKind kind = ClaimKind::other;
};

/// Calls `take` for each stretch of the window with the kinds that claim it, in order of time; the counts of
/// a stretch without a claim are all 0. Claims beyond the window are cut.
using ClaimCounts = std::array<std::int32_t, kClaimKinds>;
void sweep_claims(
    const std::vector<TimeClaim>& claims, const StepWindow& window,
    const std::function<void(std::int64_t begin, std::int64_t end, const ClaimCounts& counts)>& take);

}  // namespace plumbline
