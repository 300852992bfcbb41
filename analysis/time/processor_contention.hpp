// Load of a machine by the ranks of a run: processors that ranks share, or that collectives hold.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Bytes that a process touches between two uses of an operand.
struct Reuse {
  Bytes apart;             // this many
  Bytes evenly_within{};   // or anything from none to this, evenly
  double share_apart = 1;  // of the uses, the first kind
};

/// Load of the machine by the ranks of a run.
struct Load {
  Layout layout;
  /// 0: a rank computes while the other processors idle; 1: while all of them compute. Operator times are
  /// mixed from the profile's `alone` and `busy` tables in this proportion.
  double busy = 0;
  Reuse operands;             // weights and activations
  Reuse gradients;            // of weights
  Reuse weights_in_backward;  // for an input's gradient
  /// Average slowdown of a rank because ranks share processors; 1: each has its own.
  double sharing = 1;
  /// Slowdown of an accelerator's operators because concurrent collectives hold some of its processors; 1:
  /// there are none.
  double collective_contention = 1;
};
/// For a configuration that splits the vocabulary, on an accelerator of analysis/hardware.
double collective_contention(const RunConfig& config, const HardwareProfile& hardware,
                             const Software& software);
/// Everything but the working sets. While a rank computes, its tensor and data-parallel neighbours do too. A
/// rank of another pipeline coordinate computes for 1 - (idle ÷ compute) of the time, with equal stages: for
/// 1F1B that is 1 - (P-1)/M.
Load load_of(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
             const Software& software);

}  // namespace plumbline
