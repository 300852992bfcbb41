// One operator, collective or message on an accelerator: the device and network model of analysis/hardware/
// with its constants, for the operators of bench/training/README.md.
#pragma once

#include "analysis/hardware/machine.hpp"
#include "analysis/work/operator_list.hpp"

namespace plumbline {

/// One GEMM, attention or memory-bound call, ignoring its count. Storage in 16 bits runs on the tensor cores;
/// fp32 at the plain fp32 peak, with the same shares of it; FP8 products at their own peak and share, for any
/// storage type (infinite on a device without them). 0 for collectives and allocations.
Seconds accelerator_time(const OperatorCall& call, const Device& device);
/// True if that time was measured for this size, or lies between measured sizes.
bool is_measured(const OperatorCall& call, const Device& device);

/// One collective call, ignoring its count: by measured times within a node, where the machine's steps use
/// them.
Seconds accelerator_collective_time(const OperatorCall& call, const Machine& machine, const Layout& layout);
/// The same by the network's constants: a ring over the ranks of its group.
Seconds accelerator_collective_time(const OperatorCall& call, const Network& network, const Layout& layout);

/// The group of world rank 0, with the layout's number of members on its node.
Span span_of(Group group, int ranks, const Layout& layout, int gpus_per_node);
/// A layout of which every group has as many ranks on the first node, with no more ranks than that takes.
Layout near_layout(Layout layout, int gpus_per_node);

/// True if not all ranks of a group are on one node.
bool leaves_node(Group group, int ranks, const Layout& layout, int gpus_per_node);

}  // namespace plumbline
