// Random numbers of a trial: the same for a seed and a trial, independent of thread and library.
#pragma once

#include <cmath>
#include <cstdint>

namespace plumbline {

/// xoshiro256++ (Blackman and Vigna, ACM TOMS 47, 2021), its state filled by SplitMix64.
class TrialRandom {
 public:
  TrialRandom(std::uint64_t seed, std::uint64_t trial) {
    std::uint64_t at = seed * 0x9E3779B97F4A7C15U + trial * 0xD1B54A32D192ED03U;
    for (std::uint64_t& word : state_) {
      at += 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = (at ^ (at >> 30U)) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
      word = mixed ^ (mixed >> 31U);
    }
  }

  /// From 0 up to but not including 1.
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  /// Exponential of this mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  /// Normal of mean 0 and deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(exponential(2));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  static std::uint64_t rotated(std::uint64_t value, unsigned by) {
    return (value << by) | (value >> (64U - by));
  }
  std::uint64_t next() {
    const std::uint64_t result = rotated(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 45);
    return result;
  }

  std::uint64_t state_[4]{};
};

}  // namespace plumbline
