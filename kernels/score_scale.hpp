// The factor of attention's scores.
#pragma once

#include <cmath>
#include <cstdint>

namespace plumbline {

/// 1 ÷ sqrt(head_dim), computed in double precision (arXiv:1706.03762, equation 1).
inline float score_scale(std::int64_t head_dim) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
}

}  // namespace plumbline
