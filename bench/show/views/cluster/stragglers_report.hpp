// Step time with differing ranks, and the slow ranks of a measured step, as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "analysis/stragglers/slow_ranks.hpp"
#include "analysis/stragglers/step_noise.hpp"

namespace plumbline {

/// One kind of noise, or all of them, or all of them with some slow GPUs replaced.
struct NoiseCase {
  std::string what;
  NoisySteps steps;
  bool everything = false;  // all kinds of noise, nothing replaced
};

/// Mean, slowdown relative to a quiet step, percentiles; and the causes of delay in the last case's median
/// step.
std::string noise_cases_text(const std::vector<NoiseCase>& cases);
std::string noise_cases_json(const std::vector<NoiseCase>& cases);

/// The same as a page, with the distribution of steps as a picture. `title`: the simulated case.
std::string noise_cases_page(const std::string& title, const std::vector<NoiseCase>& cases);

std::string slow_ranks_text(const std::vector<SlowRank>& slow);
std::string slow_ranks_json(const std::vector<SlowRank>& slow);

}  // namespace plumbline
