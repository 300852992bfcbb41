// The operator list on the CPU: oneDNN for every matrix product, own vector loops for the rest.
#pragma once

#include <memory>

#include "kernels/operators.hpp"

namespace plumbline {

/// Operators over host memory in fp32, bf16 and fp16. Works on any CPU: instruction sets
/// (AVX-512, AMX) are chosen at run time. Unless the environment sets OMP_NUM_THREADS, oneDNN is held to one
/// thread, as a rank is one thread. An object keeps a cache of oneDNN primitives and small buffers and must
/// not be used by two threads at once.
std::unique_ptr<Operators> make_cpu_operators();

}  // namespace plumbline
