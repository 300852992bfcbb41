// Collectives measured and checked, reported as nccl-tests do (github.com/NVIDIA/nccl-tests, PERFORMANCE.md).
#pragma once

#include <cstdint>
#include <functional>

#include "core/backends/mpi/session.hpp"
#include "core/run/communicator.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// From 8 bytes on, each four times the one before.
struct CollectiveSizes {
  std::int64_t largest = std::int64_t{16} << 20;
  bool registered =
      false;  // over NCCL: in memory that it has registered, as with nccl-tests' --local_register
};

/// all_reduce, all_gather (in place and not), all_to_all, send and receive round a ring, reduce_scatter and
/// broadcast over the group of all ranks. Every size, in fp32 and bf16. Sizes are bytes of the buffer, of the
/// gathered output, of the input, of a message, of the input that is scattered, of the buffer. Every rank
/// calls it; rank 0 prints:
///   size       bytes
///   count      elements of a rank's input or output
///   type, reduction, root
///   time       µs, mean over ranks and calls
///   algbw      size / time, in 10^9 bytes/s
///   busbw      algbw times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, all_to_all and reduce_scatter, 1
///              for messages and broadcast, in 10^9 bytes/s
///   #wrong     the elements of all ranks that differ from the exact result
/// The communicator and `operators` find their matrices in `memory`. Returns the number of wrong elements.
std::int64_t measure_collectives(Communicator& communicator, Operators& operators, MemorySource& memory,
                                 const CollectiveSizes& sizes);

/// The main function of a program PROGRAM [RANKS [LARGEST_BYTES [registered]]]: starts its ranks, by default
/// two, and calls `measure` on each. Exit code 0 when no element was wrong, 1 when some were, 2 for bad
/// arguments, 4 when a rank failed.
int collectives_main(int argc, char** argv,
                     const std::function<std::int64_t(const MpiSession&, const CollectiveSizes&)>& measure);

}  // namespace plumbline
