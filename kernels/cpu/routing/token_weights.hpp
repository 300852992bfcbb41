// Weights of a token's chosen experts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/operators.hpp"

namespace plumbline::cpu {

inline float logistic(float x) {
  return 1 / (1 + std::exp(-x));
}

constexpr float kLeast = 1e-20F;  // of a sum that scores are divided by

/// log Σ exp(logits) over the given experts, or over all.
inline float log_sum_exp(const float* logits, std::int64_t experts) {
  const float highest = *std::max_element(logits, logits + experts);
  float sum = 0;
  for (std::int64_t i = 0; i < experts; ++i) sum += std::exp(logits[i] - highest);
  return highest + std::log(sum);
}
inline float log_sum_exp(const float* logits, const std::int32_t* chosen, std::int64_t count) {
  float sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += std::exp(logits[chosen[j]] - logits[chosen[0]]);
  return logits[chosen[0]] + std::log(sum);
}

/// Weights of the experts of one token. If all its choices have equal scores, the weight does not depend on
/// the scores, so ties between tokens do not depend on rounding.
class TokenWeights {
 public:
  TokenWeights(const Router& router, const float* logits, std::int64_t experts, const std::int32_t* chosen)
      : logits_(logits), sigmoid_(router.sigmoid), scale_(static_cast<float>(router.scale)) {
    if (!sigmoid_) highest_ = *std::max_element(logits, logits + experts);
    if (sigmoid_ && !router.normalized) return;
    float sum = sigmoid_ ? kLeast : 0;
    for (std::int64_t j = 0; j < (router.normalized ? router.top_k : experts); ++j)
      sum += score(router.normalized ? chosen[j] : j);
    scale_ /= sum;
  }
  float operator()(std::int32_t expert) const { return scale_ * score(expert); }

 private:
  /// Score up to a common factor (softmax).
  float score(std::int64_t expert) const {
    return sigmoid_ ? logistic(logits_[expert]) : std::exp(logits_[expert] - highest_);
  }

  const float* logits_;
  bool sigmoid_;
  float scale_;
  float highest_ = 0;
};

/// Encoding of a dropped choice of an expert, and the expert of either kind of choice.
inline std::int32_t dropped(std::int32_t expert) {
  return -1 - expert;
}
inline std::int32_t expert_of(std::int32_t chosen) {
  return chosen < 0 ? dropped(chosen) : chosen;
}

}  // namespace plumbline::cpu
