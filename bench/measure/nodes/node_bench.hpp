// Products, copies and messages of every rank of a job, all ranks at once.
#pragma once

#include <functional>
#include <vector>

#include "bench/measure/nodes/node_verdict.hpp"
#include "bench/record/node_report.hpp"
#include "bench/record/operator_row.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

struct NodeBenchOptions {
  double limit_s = 1;  // of one look at products and copies
  /// Size of the product, and whether operators return before they are done.
  BenchedShape product;
  bool on_device = false;
  std::function<void(NodeHealth&)> look{};  // at the state of the device, under load; or empty
  NodeLimits limits;
};

/// Rank 0: every rank's report, by rank, without a verdict; other ranks: nothing. A rank that seems slow is
/// looked at again, five times at most: the shortest time counts. Messages go through MPI in host memory,
/// with 32 other ranks at most. Processors are timed in processor time: other programs do not count.
/// Collective over MPI_COMM_WORLD.
std::vector<NodeReport> bench_nodes(Operators& operators, MemorySource& memory, NodeReport own,
                                    const NodeBenchOptions& options);

}  // namespace plumbline
