// Closed forms of bubble and memory from the papers, a cross-check for the simulator and nothing else.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/units.hpp"

namespace plumbline {

/// Times per rank and micro-batch: all chunks of a rank together.
struct RankTimes {
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
  Seconds teacher_forward{};
  double overlap_factor = 1.0;  // F&B relative to its sum
};

struct ClosedForm {
  Seconds bubble;  // makespan with a barrier at the end, minus the work of a rank
  Seconds idle;    // waiting of a rank between its first and last action: the bubble without a barrier
  double peak_activations;  // of any rank, in full-stage micro-batches
};

/// Formula of the schedule with equal stages and free transfers, or nothing if the papers give none or the
/// sizes are outside its range: GPipe (arXiv:1811.06965), 1F1B and interleaved 1F1B (arXiv:2104.04473), ZB-H1
/// and ZB-H2 (arXiv:2401.10241), ZB-V (arXiv:2405.15362, for f = b = w), DualPipe and DualPipeV
/// (arXiv:2412.19437), and the distillation orders nemo-2504 and nemo-13065. `chunks` is read for interleaved
/// 1F1B with groups of P.
std::optional<ClosedForm> closed_form(std::string_view schedule, int ranks, int microbatches, int chunks,
                                      RankTimes times);

}  // namespace plumbline
