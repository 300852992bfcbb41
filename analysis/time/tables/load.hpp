// Load of a machine, which decides between the tables of a profile.
#pragma once

#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"

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
  /// Time of products and attention on the slowest of an accelerator's GPUs, over that on a typical one.
  double slowest = 1;
};

}  // namespace plumbline
