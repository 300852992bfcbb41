// How good the algorithm that gemm() has chosen is: every configuration cuBLASLt accepts, timed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/units.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

struct GemmSearchLimits {
  std::int64_t configurations = 300'000;  // handed to cublasLtMatmulAlgoCheck at most
  int timed = 5'000;                      // of those accepted, run at most
  Seconds time{10};                       // wall time until the last one is begun
};

struct GemmSearchResult {
  Seconds chosen;                   // of the algorithm gemm() uses for this product
  Seconds best;                     // of the fastest there is, that one included
  std::int64_t configurations = 0;  // checked
  int accepted = 0;
  int timed = 0;
  bool complete = true;            // no limit was met
  std::string best_configuration;  // "algorithm 66, tile 20, …"
  double share() const { return best / chosen; }
};

/// Called now and then with the number of timed configurations.
using GemmSearchProgress = std::function<void(const GemmSearchResult& so_far)>;

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
