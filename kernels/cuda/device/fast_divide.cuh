// Division by a number known at launch, as a multiplication and a shift.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/intrinsics.cuh"

namespace plumbline::cuda {

/// Quotients of numbers below 2^31 (Granlund & Montgomery 1994, "Division by invariant integers using
/// multiplication": with 2^(s-1) < d <= 2^s and m = ceil(2^(31+s)/d), n/d = floor(n·m / 2^(31+s))).
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(unsigned divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    multiplier_ = ((std::uint64_t{1} << (31 + shift_)) + divisor - 1) / divisor;
  }
  __host__ __device__ unsigned divisor() const { return divisor_; }
  __host__ __device__ unsigned quotient(unsigned n) const {
    // For a divisor of 1 the multiplier is 2^31 and the shift 31: exact, too.
    return static_cast<unsigned>((n * multiplier_) >> (31 + shift_));
  }
  __host__ __device__ unsigned remainder(unsigned n) const { return n - quotient(n) * divisor_; }

 private:
  unsigned divisor_ = 1;
  unsigned shift_ = 0;
  std::uint64_t multiplier_ = std::uint64_t{1} << 31;
};

}  // namespace plumbline::cuda
