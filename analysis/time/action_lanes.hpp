// Lanes of a predicted step's collectives and copies: which action they overlap with, and which of them a
// rank waits for.
#pragma once

#include <optional>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"
#include "core/trace/lane_pieces.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// The collectives of one kind of action on its stage, or of an overlapped pair, from its start.
struct ActionLanes {
  ActionType type = ActionType::forward;
  int stage = 0;
  std::optional<Action> second{};  // of a pair; its micro-batch is meaningless
  bool first = false;              // of the first F of a step, which gathers more than the others
  Seconds all;                     // duration
  std::vector<LaneSpan> spans;
};

/// Lanes of every kind of action of the step. Gradients that are reduced alongside the last backwards
/// (zero_stage 0 and 1 with overlap_grad_reduce) are listed with ARG, before its begin.
std::vector<ActionLanes> action_lanes(const RunConfig& config, const RepeatedSchedule& step,
                                      const HardwareProfile& hardware);

/// Places the lanes where the trace, simulated from `schedule`, has the actions: by pipeline rank, in order
/// of start. Compute actions are measured from their start (`stretched`: on shared processors, where they
/// last longer than their kind), all others to their end. Spans within a `pieces`-th of the trace are merged.
std::vector<std::vector<LaneSpan>> lanes_of(const Schedule& schedule, const Trace& trace,
                                            const std::vector<ActionLanes>& kinds, bool stretched,
                                            double pieces = kLanePieces);

}  // namespace plumbline
