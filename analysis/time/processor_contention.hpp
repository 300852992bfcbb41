// How the ranks of a run load a machine: processors that ranks share, or that collectives hold.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// How many bytes a process touches between two uses of an operand.
struct Reuse {
  Bytes apart;             // as many as this
  Bytes evenly_within{};   // or anything from none to this, evenly
  double share_apart = 1;  // of the uses, the first kind
};

/// How the ranks of a run load the machine.
struct Load {
  Layout layout;
  /// 0: a rank computes while the other processors idle; 1: while all of them compute. Operator times are
  /// mixed from the profile's `alone` and `busy` tables in this proportion.
  double busy = 0;
  Reuse operands;             // weights and activations
  Reuse gradients;            // of weights
  Reuse weights_in_backward;  // for an input's gradient
  /// How much slower a rank runs because ranks share processors, on average; 1: each has its own.
  double sharing = 1;
  /// How much slower the operators of an accelerator run because concurrent collectives hold some of its
  /// processors; 1: there are none.
  double collective_contention = 1;
};
/// Of a configuration that splits the vocabulary, on an accelerator of clusters.json.
/// `framework`: whose training step it is, nullptr for plumbline's.
double collective_contention(const RunConfig& config, const HardwareProfile& hardware,
                             const cluster::Software* framework = nullptr);
/// Everything but the working sets. While a rank computes, its tensor and data-parallel neighbours do too,
/// and a rank of another pipeline coordinate does for 1 - (idle ÷ compute) of the time, with equal stages:
/// for 1F1B that is 1 - (P-1)/M.
Load load_of(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
             const cluster::Software* framework = nullptr);

}  // namespace plumbline
