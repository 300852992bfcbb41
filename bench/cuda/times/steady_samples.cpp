#include "bench/cuda/times/steady_samples.hpp"

#include <cmath>

#include "core/base/statistics.hpp"

namespace plumbline {

void SteadySamples::add(Seconds sample) {
  samples_.push_back(sample.value);
  sum_ += sample.value;
}

double SteadySamples::noise() const {
  if (samples_.size() < 2) return 0;
  const double mean = sum_ / static_cast<double>(samples_.size());
  double squares = 0;
  for (const double sample : samples_) squares += (sample - mean) * (sample - mean);
  return mean > 0 ? std::sqrt(squares / static_cast<double>(samples_.size() - 1)) / mean : 0;
}

bool SteadySamples::enough() const {
  if (samples_.empty()) return false;
  if (sum_ >= limits_.longest.value) return true;
  return count() >= limits_.fewest && sum_ >= limits_.least.value && noise() <= limits_.noise;
}

Seconds SteadySamples::median() const {
  return samples_.empty() ? Seconds{} : Seconds{lower_median(samples_)};
}

}  // namespace plumbline
