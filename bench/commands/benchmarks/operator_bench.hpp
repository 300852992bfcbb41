// `plumbline bench operator`: single operators of this machine, beside their predictions.
#pragma once

#include "bench/commands/benchmarks/bench_options.hpp"
#include "bench/record/operator_row.hpp"

namespace plumbline {

/// Shapes of --shape, --shapes and --config, else a few of every kind. Throws InputError.
std::vector<BenchedShape> benched_shapes(const BenchOptions& options);

/// Measures them in this process, a row at a time. Throws InputError as one of several ranks.
int run_operator_bench(const BenchOptions& options);

}  // namespace plumbline
