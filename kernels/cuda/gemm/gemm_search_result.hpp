// Limits and result of a search of a product's configurations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/units.hpp"

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

}  // namespace plumbline
