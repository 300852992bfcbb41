// Time of one operator, collective or message on a machine: a measured table, or else an accelerator's
// constants, or else a roofline.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/processor_contention.hpp"
#include "analysis/work/operator_list.hpp"

namespace plumbline {

/// One call (times its count) on one rank with a processor of its own. A collective takes its wall time
/// divided by load.sharing, since a simulation of sharing stretches it again.
Seconds time_of(const OperatorCall& call, const HardwareProfile& hardware, const Load& load);
/// True if its accelerator's time was measured for this size, or lies between measured sizes.
bool is_measured(const OperatorCall& call, const HardwareProfile& hardware);
/// One collective call: wall time, including the processor sharing that the world size implies. Measured: the
/// nearest group and world size, half an all-reduce for an all-gather or reduce-scatter. An accelerator:
/// rings within and between nodes (hardware/network.hpp). Else a ring, 2·latency + 2(n-1)/n · bytes / link
/// bandwidth, half of it for a half. `started`: large and possibly begun early, as gradient buckets are;
/// tensor-parallel messages are not.
Seconds collective_time(const OperatorCall& call, const HardwareProfile& hardware, const Layout& layout,
                        bool started = false);
/// One-way message between two ranks, wall time: measured, or an accelerator's link, or latency + bytes /
/// link bandwidth.
Seconds message_time(const HardwareProfile& hardware, int world, Bytes bytes, bool between_nodes = false);
/// Number of pipeline coordinates on one node, in the order of core/parallel/layout.hpp; 0: all of them.
int pipeline_ranks_per_node(const HardwareProfile& hardware, const Layout& layout);

}  // namespace plumbline
