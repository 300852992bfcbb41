#include "tests/kernels/attention_reference.hpp"

#include <algorithm>
#include <cmath>

#include "tests/kernels/philox_reference.hpp"

namespace plumbline::test {

AttentionReference::AttentionReference(const AttentionShape& shape, const Dense& q, const Dense& k,
                                       const Dense& v, double floor)
    : s_(shape),
      q_(q),
      k_(k),
      v_(v),
      scale_(1 / std::sqrt(static_cast<double>(shape.head_dim))),
      floor_(floor) {}

void AttentionReference::each_row(
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) const {
  for (std::int64_t sequence = 0; sequence < s_.batch; ++sequence) {
    for (std::int64_t head = 0; head < s_.heads; ++head) {
      for (std::int64_t i = 0; i < s_.seq; ++i) f(sequence, head, i);
    }
  }
}

std::size_t AttentionReference::first_seen(std::int64_t i) const {
  return s_.window > 0 && i >= s_.window ? static_cast<std::size_t>(i - s_.window + 1) : 0;
}

namespace {

/// As in the authors' code: the slopes of the power of two below, then every other one of twice that model.
std::vector<double> slopes_of(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) {
    slopes.push_back(std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  if (power == heads) return slopes;
  const std::vector<double> finer = slopes_of(2 * power);
  for (std::size_t i = 0; std::ssize(slopes) < heads; i += 2) slopes.push_back(finer[i]);
  return slopes;
}

}  // namespace

double AttentionReference::past(std::int64_t head, std::int64_t distance) const {
  if (s_.alibi.heads == 0) return 0;
  const double slope = slopes_of(s_.alibi.heads)[static_cast<std::size_t>(s_.first_head + head)];
  return s_.alibi.factor * slope * static_cast<double>(distance);
}

std::vector<double> AttentionReference::scores(std::int64_t sequence, std::int64_t head, std::int64_t i,
                                               bool sizes) const {
  std::vector<double> result(end_seen(i));
  for (std::size_t j = 0; j < result.size(); ++j) {
    const std::int64_t u = sequence * s_.seq + static_cast<std::int64_t>(j);
    for (std::int64_t c = 0; c < s_.head_dim; ++c) {
      const double product =
          q_(sequence * s_.seq + i, head * s_.head_dim + c) * k_(u, kv_col(head) + c) * scale_;
      result[j] += sizes ? std::fabs(product) : product;
    }
    const double lost = past(head, i - static_cast<std::int64_t>(j));
    result[j] += sizes ? lost : -lost;
  }
  return result;
}

double AttentionReference::largest_score_terms() const {
  double largest = 0;
  each_row([&](std::int64_t sequence, std::int64_t head, std::int64_t i) {
    for (const double terms : scores(sequence, head, i, true)) largest = std::max(largest, terms);
  });
  return largest;
}

std::vector<double> AttentionReference::probabilities(std::int64_t sequence, std::int64_t head,
                                                      std::int64_t i, double* lse) const {
  std::vector<double> p = scores(sequence, head, i, false);
  double total = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    p[j] = j < first_seen(i) ? 0 : std::exp(p[j]);
    total += p[j];
  }
  for (double& value : p) value /= total;
  *lse = std::log(total);
  return p;
}

std::vector<double> AttentionReference::weights(std::int64_t sequence, std::int64_t head,
                                                std::int64_t i) const {
  std::vector<double> result(end_seen(i), 1);
  if (s_.dropout.probability == 0) return result;
  for (std::size_t j = 0; j < result.size(); ++j) {
    const bool kept =
        stays(s_.dropout, sequence * s_.seq + i, static_cast<std::int64_t>(j), 1 + s_.first_head + head);
    result[j] = kept ? 1 / (1 - s_.dropout.probability) : 0;
  }
  return result;
}

Summed AttentionReference::nothing_summed(const Dense& like) const {
  return {Dense(like.rows, like.cols), dense(like.rows, like.cols, [&](auto, auto) { return floor_; })};
}

Summed AttentionReference::forward(Dense* lse) const {
  Summed out = nothing_summed(q_);
  *lse = Dense(s_.batch * s_.heads, s_.seq);
  each_row([&](std::int64_t sequence, std::int64_t head, std::int64_t i) {
    const std::vector<double> p = probabilities(sequence, head, i, &(*lse)(sequence * s_.heads + head, i));
    const std::vector<double> w = weights(sequence, head, i);
    const std::int64_t t = sequence * s_.seq + i;
    for (std::size_t j = first_seen(i); j < p.size(); ++j) {
      const std::int64_t u = sequence * s_.seq + static_cast<std::int64_t>(j);
      for (std::int64_t c = 0; c < s_.head_dim; ++c) {
        const double value = w[j] * v_(u, kv_col(head) + c);
        out.values(t, head * s_.head_dim + c) += p[j] * value;
        out.terms(t, head * s_.head_dim + c) += (p[j] + floor_) * std::fabs(value);
      }
    }
  });
  return out;
}

AttentionGradients AttentionReference::backward(const Dense& dout) const {
  AttentionGradients g{nothing_summed(q_), nothing_summed(k_), nothing_summed(v_)};
  Dense unused;
  const Summed out = forward(&unused);
  each_row([&](std::int64_t sequence, std::int64_t head, std::int64_t i) {
    double lse = 0;
    const std::vector<double> p = probabilities(sequence, head, i, &lse);
    const std::vector<double> w = weights(sequence, head, i);
    const std::int64_t t = sequence * s_.seq + i;
    const std::int64_t col = head * s_.head_dim;
    // Reference for every probability's gradient, Σ dout·out = Σ p·dp.
    double mean = 0;
    double mean_terms = 0;
    for (std::int64_t c = 0; c < s_.head_dim; ++c) {
      mean += dout(t, col + c) * out.values(t, col + c);
      mean_terms += std::fabs(dout(t, col + c)) * out.terms(t, col + c);
    }
    for (std::size_t j = first_seen(i); j < p.size(); ++j) {
      const std::int64_t u = sequence * s_.seq + static_cast<std::int64_t>(j);
      double dp = 0;
      double dp_terms = 0;
      for (std::int64_t c = 0; c < s_.head_dim; ++c) {
        const double gradient = w[j] * dout(t, col + c);
        const double value = v_(u, kv_col(head) + c);
        dp += gradient * value;
        dp_terms += std::fabs(gradient * value);
        g.dv.values(u, kv_col(head) + c) += p[j] * gradient;
        g.dv.terms(u, kv_col(head) + c) += (p[j] + floor_) * std::fabs(gradient);
      }
      const double ds = p[j] * (dp - mean) * scale_;
      const double ds_terms = ((p[j] + floor_) * (dp_terms + mean_terms) + floor_) * scale_;
      for (std::int64_t c = 0; c < s_.head_dim; ++c) {
        g.dq.values(t, col + c) += ds * k_(u, kv_col(head) + c);
        g.dq.terms(t, col + c) += ds_terms * std::fabs(k_(u, kv_col(head) + c));
        g.dk.values(u, kv_col(head) + c) += ds * q_(t, col + c);
        g.dk.terms(u, kv_col(head) + c) += ds_terms * std::fabs(q_(t, col + c));
      }
    }
  });
  return g;
}

}  // namespace plumbline::test
