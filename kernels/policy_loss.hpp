// Loss of one token of a policy and the factors of its gradient, for every backend.
#pragma once

#include <cmath>

#include "kernels/host_device.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Columns of Operators::policy_loss's matrices for one token.
struct PolicyToken {
  double exponentials, at_target, entropy_sum;  // Σ exp(x), the target's x, Σ exp(x)·x; x = logit - row_max
  double old, reference, advantage, weight;
};

struct PolicyFactors {
  double loss;
  float target, product, constant;  // rows of Operators::policy_loss's factors
};

PLUMBLINE_HOST_DEVICE inline PolicyFactors policy_factors(const PolicyToken& token, const PolicyLoss& loss,
                                                          double scale) {
  const double log_sum = std::log(token.exponentials);
  const double log_p = token.at_target - log_sum;
  const double ratio = std::exp(log_p - token.old);
  double clipped = ratio;
  if (clipped < 1 - loss.clip_low) clipped = 1 - loss.clip_low;
  if (clipped > 1 + loss.clip_high) clipped = 1 + loss.clip_high;
  const bool free = ratio * token.advantage <= clipped * token.advantage;  // the smaller one is not clipped
  double value = -(free ? ratio : clipped) * token.advantage;
  double slope = free ? -ratio * token.advantage : 0;  // of the loss, by log_p
  if (loss.kl_coef != 0) {
    const double r = token.reference - log_p;
    const double e = loss.kl == 3 ? std::exp(r) : 0;
    value += loss.kl_coef * (loss.kl == 1 ? -r : loss.kl == 2 ? r * r / 2 : e - 1 - r);
    slope += loss.kl_coef * (loss.kl == 1 ? 1 : loss.kl == 2 ? -r : 1 - e);
  }
  const double entropy = log_sum - token.entropy_sum / token.exponentials;
  if (loss.entropy_coef != 0) value -= loss.entropy_coef * entropy;
  const double a = scale * token.weight * slope;
  const double b = scale * token.weight * loss.entropy_coef;
  PolicyFactors factors;
  factors.loss = token.weight * value;
  factors.target = static_cast<float>(a);
  factors.product = static_cast<float>(b / token.exponentials);
  factors.constant = static_cast<float>((b * (entropy - log_sum) - a) / token.exponentials);
  return factors;
}

}  // namespace plumbline
