#include "bench/training/generate/sampling.hpp"

#include <Random123/philox.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline::generation {
namespace {

/// In [0, 1).
double draw(const Sampling& sampling, TokenPlace place) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(place.position), static_cast<std::uint32_t>(place.position >> 32),
       static_cast<std::uint32_t>(place.sequence), static_cast<std::uint32_t>(place.sequence >> 32)}};
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(sampling.seed), static_cast<std::uint32_t>(sampling.seed >> 32)}};
  const auto bits = r123::Philox4x32()(counter, key);
  return bits[0] * 0x1p-32 + (bits[1] >> 11) * 0x1p-53;
}

struct Reached {
  std::int32_t id = 0;
  double sum = 0;  // of all weights up to it
};

/// Ids by falling logit, of equal ones the smallest first, ordered only as far as a question needs: sorting a
/// vocabulary would take longer than a small model's pass.
class Ranking {
 public:
  Ranking(std::span<const float> logits, std::span<const double> weights, std::int64_t kept)
      : logits_(logits), weights_(weights), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    if (kept <= 0 || kept >= std::ssize(ids_)) return;
    part(0, kept, std::ssize(ids_));
    ids_.resize(static_cast<std::size_t>(kept));
  }

  double sum() const { return sum_of(0, std::ssize(ids_)); }
  /// The first id with which the sum of weights is at least `bound`, or above it; the last id if none is.
  Reached at(double bound, bool above) {
    std::int64_t first = 0, end = std::ssize(ids_);
    double before = 0;
    while (end - first > 1) {
      const std::int64_t middle = first + (end - first) / 2;
      part(first, middle, end);
      const double upper = before + sum_of(first, middle);
      if (above ? upper > bound : upper >= bound) {
        end = middle;
      } else {
        before = upper;
        first = middle;
      }
    }
    const std::int32_t id = ids_[static_cast<std::size_t>(first)];
    return {id, before + weights_[static_cast<std::size_t>(id)]};
  }

 private:
  /// Puts the likeliest of the ids from `first` to `end` in front of `middle`.
  void part(std::int64_t first, std::int64_t middle, std::int64_t end) {
    std::nth_element(ids_.begin() + first, ids_.begin() + middle, ids_.begin() + end,
                     [this](std::int32_t a, std::int32_t b) {
                       const float x = logits_[static_cast<std::size_t>(a)];
                       const float y = logits_[static_cast<std::size_t>(b)];
                       return x != y ? x > y : a < b;
                     });
  }
  double sum_of(std::int64_t first, std::int64_t end) const {
    return std::accumulate(
        ids_.begin() + first, ids_.begin() + end, 0.0,
        [this](double sum, std::int32_t id) { return sum + weights_[static_cast<std::size_t>(id)]; });
  }

  std::span<const float> logits_;
  std::span<const double> weights_;
  std::vector<std::int32_t> ids_;
};

std::vector<double> weights_of(std::span<const float> logits, double top, double temperature) {
  std::vector<double> weights(logits.size());
  std::transform(logits.begin(), logits.end(), weights.begin(),
                 [=](float logit) { return std::exp((logit - top) / temperature); });
  return weights;
}

}  // namespace

void refuse_logits(TokenPlace place) {
  throw Error(
      fmt::format("logits: found one that is not finite, of sequence {} at position {}, expected finite "
                  "numbers; change weights or precision",
                  place.sequence, place.position));
}

Choice choose(std::span<const float> logits, const Sampling& sampling, TokenPlace place) {
  const bool numbers = std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
  if (!numbers) refuse_logits(place);
  const auto best = std::max_element(logits.begin(), logits.end());
  Choice choice;
  std::vector<double> weights = weights_of(logits, *best, 1);
  choice.log_probability = -std::log(std::accumulate(weights.begin(), weights.end(), 0.0));
  if (sampling.greedy()) {
    choice.id = static_cast<std::int32_t>(best - logits.begin());
  } else {
    if (sampling.temperature != 1) weights = weights_of(logits, *best, sampling.temperature);
    Ranking ranking(logits, weights, sampling.top_k);
    const double sum = ranking.sum();
    const double limit = sampling.top_p < 1 ? ranking.at(sampling.top_p * sum, false).sum : sum;
    choice.id = ranking.at(draw(sampling, place) * limit, true).id;
  }
  choice.log_probability += logits[static_cast<std::size_t>(choice.id)] - *best;
  return choice;
}

}  // namespace plumbline::generation
