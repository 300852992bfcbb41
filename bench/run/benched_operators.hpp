// `plumbline bench operator` on one processor or GPU.
#pragma once

#include <functional>
#include <span>

#include "bench/record/operator_row.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Measures the shapes in their order: a half of `limit_s` for isolated calls, a half for batched ones.
/// Backend cuda replaces this process by its program. Throws InputError for a backend that is not here.
void bench_operators(std::span<const BenchedShape> shapes, Backend backend, double limit_s,
                     const std::function<void(OperatorRow)>& on_row);

}  // namespace plumbline
