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

double log_of_sum(std::span<const float> logits, double top) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

/// Ids by falling logit.
std::vector<std::int32_t> likeliest(std::span<const float> logits, std::int64_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const std::int64_t kept = count == 0 ? std::ssize(ids) : std::min(count, std::int64_t{std::ssize(ids)});
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), before);
  ids.resize(static_cast<std::size_t>(kept));
  return ids;
}

std::int32_t sample(std::span<const float> logits, double top, const Sampling& sampling, TokenPlace place) {
  const std::vector<std::int32_t> ids = likeliest(logits, sampling.top_k);
  std::vector<double> reached;  // sums of weights, in the order of ids
  reached.reserve(ids.size());
  double sum = 0;
  for (const std::int32_t id : ids)
    reached.push_back(sum += std::exp((logits[static_cast<std::size_t>(id)] - top) / sampling.temperature));
  const auto first_at = [&](double bound) {
    const auto found = std::lower_bound(reached.begin(), reached.end(), bound);
    return std::min(found - reached.begin(), std::ssize(reached) - 1);
  };
  const double limit = reached[static_cast<std::size_t>(first_at(sampling.top_p * sum))];
  const double drawn = draw(sampling, place) * limit;
  const auto above = std::upper_bound(reached.begin(), reached.end(), drawn);
  return ids[static_cast<std::size_t>(std::min(above - reached.begin(), std::ssize(ids) - 1))];
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
  choice.id = sampling.greedy() ? static_cast<std::int32_t>(best - logits.begin())
                                : sample(logits, *best, sampling, place);
  choice.log_probability = logits[static_cast<std::size_t>(choice.id)] - log_of_sum(logits, *best);
  return choice;
}

}  // namespace plumbline::generation
