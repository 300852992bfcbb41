// One rank of `plumbline bench collective`.
#pragma once

#include <functional>

#include "bench/measure/collectives/collective_bench.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Throws InputError for a benchmark that the layout's group or the backend cannot do.
void check_bench(const BenchRequest& request, const Layout& layout, Backend backend);

/// Benchmarks on the backend: MPI in host memory (cpu), or NCCL in device memory (cuda), `registered` with
/// NCCL. World rank 0 calls `on_row`. Starts MPI, or replaces this process by the program of backend cuda.
/// Returns the exit code: 1 when elements were wrong.
int run_as_benched_rank(const BenchRequest& request, const Layout& layout, Backend backend, bool registered,
                        const std::function<void(const CollectiveRow&)>& on_row);

}  // namespace plumbline
