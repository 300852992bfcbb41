// How good the algorithm that gemm() has chosen is: every configuration cuBLASLt accepts, timed.
#pragma once

#include "kernels/cuda/gemm/gemm_search_result.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Exhaustive search for the product, which is not changed: all algorithms of its types
/// (cublasLtMatmulAlgoGetIds), each with all combinations of the tiles, stages, split-K factors and reduction
/// schemes, swizzles and custom options that it says it has, and all cluster shapes; inner shapes as each has
/// them by default. What cublasLtMatmulAlgoCheck accepts within the workspace of gemm() is run twice, the
/// sixteen fastest and the chosen one in turns ever again, and their fastest runs compared. Configurations
/// with few options away from their defaults come first, so that a limit leaves out the odd ones. `gemm` as
/// Operators::gemm says, with a bias of C's type or none; `operators` from make_cuda_operators(). Throws
/// Error.
GemmSearchResult search_gemm(Operators& operators, const Gemm& gemm, const GemmSearchLimits& limits = {},
                             const GemmSearchProgress& progress = {});

}  // namespace plumbline
