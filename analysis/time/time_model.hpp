// How long every action of a stage takes on a machine: a measured table, an accelerator's constants or a
// roofline per operator, summed over the operators of bench/training/README.md, plus messages and
// collectives.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/work/operator_list.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// How the ranks of a run load the machine.
struct Load {
  Layout layout;
  /// 0: a rank computes while the other processors idle; 1: while all of them compute. Operator times are
  /// mixed from the profile's `alone` and `busy` tables in this proportion.
  double busy = 0;
  /// Bytes a process touches before it comes back to the same weights or activations, and to the same
  /// gradients.
  Bytes working_set;
  Bytes gradient_working_set;
  /// How much slower a rank runs because ranks share processors, on average; 1: each has its own.
  double sharing = 1;
  /// How much slower the operators of an accelerator run because collectives beside them hold some of its
  /// processors; 1: there are none.
  double beside_collectives = 1;
};
/// Of a configuration that splits the vocabulary, on an accelerator of clusters.json.
double beside_collectives(const RunConfig& config, const HardwareProfile& hardware);
/// Everything but the working sets. While a rank computes, its tensor and data-parallel neighbours do too,
/// and a rank of another pipeline coordinate does for 1 - (idle ÷ compute) of the time, with equal stages:
/// for 1F1B that is 1 - (P-1)/M.
Load load_of(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware);

/// One call (times its count) on one rank, as long as it has a processor of its own. A collective takes its
/// wall time divided by load.sharing, since whoever simulates sharing stretches it again.
Seconds time_of(const OperatorCall& call, const HardwareProfile& hardware, const Load& load);
/// One collective call, wall time with whatever sharing of processors the world means. Measured: the nearest
/// group and world size, half an all-reduce for an all-gather or reduce-scatter. An accelerator: rings within
/// and between nodes (cluster/network.hpp). Else a ring, 2·latency + 2(n-1)/n · bytes / link bandwidth, half
/// of it for a half. `started`: large and possibly begun early, as gradient buckets are; tensor-parallel
/// messages are not.
Seconds collective_time(const OperatorCall& call, const HardwareProfile& hardware, const Layout& layout,
                        bool started = false);
/// One-way message between two ranks, wall time: measured, or an accelerator's link, or latency + bytes /
/// link bandwidth.
Seconds message_time(const HardwareProfile& hardware, int world, Bytes bytes, bool between_nodes = false);
/// How many pipeline coordinates share a node, in the order of core/parallel/layout.hpp; 0: all of them.
int pipeline_ranks_per_node(const HardwareProfile& hardware, const Layout& layout);

/// One line of the explanation of a stage's time.
struct CostLine {
  int stage = 0;
  /// forward | backward | backward input | backward weight | teacher forward | scores | scores backward |
  /// input layer | input layer backward | step
  std::string phase;
  std::string label;
  std::int64_t count = 0;
  Seconds seconds;  // all `count` calls; of what runs beside computation, the part that is waited for
  Flops flops;
};

/// Communication that a stage's actions wait for, part of their cost.
struct PassCommunication {
  Seconds tensor;  // collectives of the tensor group
  Seconds data;    // ZeRO-2 and 3: gathers and scatters that computation does not hide
  /// Those of a cut vocabulary, where nothing runs beside computation; elsewhere see costs.vocabulary.
  VocabularySeconds vocabulary{};
};
struct StageCommunication {
  PassCommunication forward;
  PassCommunication backward;
  PassCommunication backward_input;
  PassCommunication backward_weight;
  PassCommunication teacher_forward;
  PassCommunication vocab_forward;
  PassCommunication vocab_backward;
  PassCommunication input_forward;
  PassCommunication input_backward;
};

struct StageCostsPrediction {
  Costs costs;
  std::vector<StageCommunication> communication;  // per stage of the schedule
  std::vector<CostLine> lines;
};

/// The simulator's input for `schedule` on `hardware`. The simulator stretches what ranks do while they share
/// processors, so communication measured on a crowded machine is put in divided by that stretch. Costs of the
/// end of the step stand at the lowest stage of each rank, which ARG, ARE and OPT name.
StageCostsPrediction stage_costs(const RunConfig& config, const Schedule& schedule,
                                 const HardwareProfile& hardware);

}  // namespace plumbline
