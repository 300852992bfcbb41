#include "analysis/stragglers/slowest_gpu.hpp"

#include <cmath>

namespace plumbline {
namespace {

/// The value that a standard normal draw exceeds with this probability, below a half: Newton's method on
/// log erfc, which is concave.
double exceeded_with(double probability) {
  constexpr double kRootHalf = 0.70710678118654752;
  constexpr double kRootTwoPi = 2.5066282746310002;
  double z = 0;
  for (int step = 0; step < 40; ++step) {
    const double above = 0.5 * std::erfc(z * kRootHalf);
    const double density = std::exp(-0.5 * z * z) / kRootTwoPi;
    const double next = z + std::log(above / probability) * above / density;
    if (std::abs(next - z) < 1e-12) break;
    z = next;
  }
  return z;
}

}  // namespace

double expected_maximum(int count) {
  if (count < 2) return 0;
  constexpr double kBeyondWhisker = 0.003488;  // of a normal distribution, on each side
  const double exceeding = -std::expm1(std::log(0.5264) / count);
  return exceeded_with(kBeyondWhisker + exceeding * (1 - 2 * kBeyondWhisker));
}

double slowest_gpu(int gpus) {
  return 1 + kGpuSpread * expected_maximum(gpus);
}

}  // namespace plumbline
