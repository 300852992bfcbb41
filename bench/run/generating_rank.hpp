// One rank of `plumbline generate`.
#pragma once

#include <functional>

#include "bench/training/generate/generator.hpp"

namespace plumbline {

/// Generates on the configuration's backend; world rank 0 calls `write` with the result. Starts MPI, or
/// replaces this process by the program of backend cuda. Returns the exit code.
int run_as_generating_rank(const RunConfig& config, const generation::GenerationRequest& request,
                           const std::function<void(const generation::GenerationResult&)>& write);

}  // namespace plumbline
