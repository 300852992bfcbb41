// Quality of the algorithm that gemm() has chosen: every configuration cuBLASLt accepts, timed.
#pragma once

#include "kernels/cuda/gemm/gemm_search_result.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Exhaustive search for the product, which is not changed: all algorithms of its types
/// (cublasLtMatmulAlgoGetIds), each with all combinations of the tiles, stages, split-K factors and reduction
/// schemes, swizzles and custom options that it reports, and all cluster shapes; inner shapes as each has
/// them by default. Configurations that cublasLtMatmulAlgoCheck accepts within the workspace of gemm() are
/// run twice. The sixteen fastest and the chosen one then run alternately, and their fastest runs are
/// compared. Configurations with few options away from their defaults come first, so that a limit leaves out
/// the odd ones. `gemm` as in Operators::gemm, with a bias of C's type or none; `operators` from
/// make_cuda_operators(). Throws Error.
GemmSearchResult search_gemm(Operators& operators, const Gemm& gemm, const GemmSearchLimits& limits = {},
                             const GemmSearchProgress& progress = {});

}  // namespace plumbline
