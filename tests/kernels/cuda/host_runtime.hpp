// Requests to the runtime that stands in for CUDA's.
#pragma once

namespace plumbline::test {

/// Number of times that this process has waited for a stream.
int waits_for_the_device();

/// Number of pieces of memory that were asked for in a stream (a cudaStream_t).
int allocations_in(const void* stream);

}  // namespace plumbline::test
