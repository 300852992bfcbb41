// PyTorch's context parallelism, which torchtitan trains with
// (pytorch/pytorch v2.6.0 torch/distributed/tensor/experimental/_attention.py).
#pragma once

#include <functional>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {

/// True if attention's K/V come from other ranks by PyTorch's ring: by one all-gather (cp_comm_type
/// all_gather, rotate method "allgather") or from neighbour to neighbour (p2p, "alltoall").
bool is_torch_ring(const StageShape& s);

/// Appends attention of one layer. `partial` appends the kernel of one step; each step has as many pairs of
/// tokens as a causal sequence of the rank's tokens. Calls are those of the last rank, which merges whole
/// rows in every step; the first rank adds a tenth more to gradients.
///
/// Compiled, a collective is traced with its wait right behind it (_functional_collectives.py,
/// _maybe_wrap_tensor; generated code in pytorch/torchtitan pull request 3305), and Inductor does not move
/// them apart (reorder_for_compute_comm_overlap is off): nothing overlaps. Pointwise chains are one kernel.
/// Eager, a collective is awaited before the next step's kernel, and every operator is a kernel of its own.
void torch_ring(const StageShape& s, bool backward, CallList& list, const std::function<void()>& partial);

}  // namespace plumbline
