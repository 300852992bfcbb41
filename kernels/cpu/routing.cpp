// The operators of a mixture of experts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

/// The `count` largest of the scores that `allowed` has a place for. Whatever the scores are, NaN too, they are different
/// ones.
template <class Allowed>
void choose_largest(const float* scores, std::int64_t all, std::int32_t* chosen, std::int64_t count,
                    const Allowed& allowed) {
  for (std::int64_t j = 0; j < count; ++j) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < all; ++i) {
      if (!allowed(i) || (best >= 0 && !(scores[i] > scores[best]))) continue;
      const bool taken = std::find(chosen, chosen + j, static_cast<std::int32_t>(i)) != chosen + j;
      if (!taken) best = i;
    }
    chosen[j] = static_cast<std::int32_t>(best);
  }
}

float logistic(float x) {
  return 1 / (1 + std::exp(-x));
}

/// Of one token after the other.
class ExpertChoice {
 public:
  ExpertChoice(const Router& router, std::int64_t experts)
      : router_(router),
        experts_(experts),
        scores_(static_cast<std::size_t>(experts)),
        of_groups_(static_cast<std::size_t>(router.groups)),
        groups_(static_cast<std::size_t>(router.chosen_groups)) {}

  void operator()(const float* logits, std::int32_t* chosen) {
    const auto all = [](std::int64_t) { return true; };
    if (router_.groups == 1) return choose_largest(scores(logits), experts_, chosen, router_.top_k, all);
    const float* score = scores(logits);
    const std::int64_t size = experts_ / router_.groups;
    for (std::int64_t group = 0; group < router_.groups; ++group) {
      std::int32_t best[2];
      const std::int64_t count = std::min<std::int64_t>(2, size);
      choose_largest(score + group * size, size, best, count, all);
      float sum = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += score[group * size + best[i]];
      of_groups_[static_cast<std::size_t>(group)] = sum;
    }
    choose_largest(of_groups_.data(), router_.groups, groups_.data(), router_.chosen_groups, all);
    choose_largest(score, experts_, chosen, router_.top_k, [&](std::int64_t expert) {
      return std::find(groups_.begin(), groups_.end(), static_cast<std::int32_t>(expert / size)) !=
             groups_.end();
    });
  }

 private:
  /// What is compared. A softmax has its logits' order.
  const float* scores(const float* logits) {
    const bool biased = router_.bias.data != nullptr;
    if (!router_.sigmoid && !biased && router_.groups == 1) return logits;
    const float highest = *std::max_element(logits, logits + experts_);
    std::transform(logits, logits + experts_, scores_.begin(), [&](float logit) {
      return router_.sigmoid ? logistic(logit) : std::exp(logit - highest);
    });
    if (!router_.sigmoid) {
      const float sum = std::accumulate(scores_.begin(), scores_.end(), 0.0F);
      for (float& score : scores_) score /= sum;
    }
    for (std::int64_t i = 0; biased && i < experts_; ++i)
      scores_[static_cast<std::size_t>(i)] += router_.bias.as<float>()[i];
    return scores_.data();
  }

  const Router& router_;
  const std::int64_t experts_;
  std::vector<float> scores_, of_groups_;
  std::vector<std::int32_t> groups_;
};

constexpr float kLeast = 1e-20F;  // of a sum that scores are divided by

/// log Σ exp(logits) over the given experts, or over all.
float log_sum_exp(const float* logits, std::int64_t experts) {
  const float highest = *std::max_element(logits, logits + experts);
  float sum = 0;
  for (std::int64_t i = 0; i < experts; ++i) sum += std::exp(logits[i] - highest);
  return highest + std::log(sum);
}
float log_sum_exp(const float* logits, const std::int32_t* chosen, std::int64_t count) {
  float sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += std::exp(logits[chosen[j]] - logits[chosen[0]]);
  return logits[chosen[0]] + std::log(sum);
}

/// What the experts of one token count.
class TokenWeights {
 public:
  TokenWeights(const Router& router, const float* logits, std::int64_t experts, const std::int32_t* chosen)
      : logits_(logits), sigmoid_(router.sigmoid), scale_(static_cast<float>(router.scale)) {
    if (!router.sigmoid) {
      log_sum_ = router.normalized ? log_sum_exp(logits, chosen, router.top_k) : log_sum_exp(logits, experts);
    } else if (router.normalized) {
      float sum = kLeast;
      for (std::int64_t j = 0; j < router.top_k; ++j) sum += logistic(logits[chosen[j]]);
      scale_ /= sum;
    }
  }
  float operator()(std::int32_t expert) const {
    return scale_ * (sigmoid_ ? logistic(logits_[expert]) : std::exp(logits_[expert] - log_sum_));
  }

 private:
  const float* logits_;
  bool sigmoid_;
  float scale_;
  float log_sum_ = 0;
};

std::vector<std::int64_t> tokens_of_experts(const Matrix& chosen, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
  const std::int32_t* first = chosen.as<std::int32_t>();
  for (std::int64_t i = 0; i < chosen.cols; ++i) ++counts[static_cast<std::size_t>(first[i])];
  return counts;
}

/// Of one token: its weights' gradient goes back through the softmax, or where they are normalized through that of the
/// chosen alone; that of the balance loss through the first.
class TokenBackward {
 public:
  TokenBackward(const Router& router, const std::vector<std::int64_t>& counts)
      : router_(router),
        counts_(counts),
        scale_(static_cast<float>(router.scale)),
        gradient_(counts.size()),
        slope_(counts.size()) {}

  /// dweights: of row places[j] for the token's choice j.
  const std::vector<float>& operator()(const float* logits, const std::int32_t* chosen,
                                       const std::int32_t* places, const float* dweights) {
    const auto experts = static_cast<std::int64_t>(counts_.size());
    const float log_sum = log_sum_exp(logits, experts);
    if (router_.sigmoid) return of_sigmoid(logits, log_sum, chosen, places, dweights);
    std::transform(counts_.begin(), counts_.end(), slope_.begin(), [&](std::int64_t count) {
      return static_cast<float>(router_.balance * static_cast<double>(count));
    });
    if (!router_.normalized) {
      for (std::int64_t j = 0; j < router_.top_k; ++j)
        slope_[static_cast<std::size_t>(chosen[j])] += scale_ * dweights[places[j]];
    }
    const auto probability = [&](std::size_t i) { return std::exp(logits[i] - log_sum); };
    float mean = 0;
    for (std::size_t i = 0; i < slope_.size(); ++i) mean += slope_[i] * probability(i);
    const float pull = static_cast<float>(2 * router_.z) * log_sum;
    for (std::size_t i = 0; i < slope_.size(); ++i) gradient_[i] = probability(i) * (slope_[i] - mean + pull);
    if (router_.normalized) add_of_chosen(logits, chosen, places, dweights);
    return gradient_;
  }

 private:
  void add_of_chosen(const float* logits, const std::int32_t* chosen, const std::int32_t* places,
                     const float* dweights) {
    const float log_sum = log_sum_exp(logits, chosen, router_.top_k);
    const auto weight = [&](std::int64_t j) { return std::exp(logits[chosen[j]] - log_sum); };
    float mean = 0;
    for (std::int64_t j = 0; j < router_.top_k; ++j) mean += dweights[places[j]] * weight(j);
    for (std::int64_t j = 0; j < router_.top_k; ++j)
      gradient_[static_cast<std::size_t>(chosen[j])] += scale_ * weight(j) * (dweights[places[j]] - mean);
  }

  /// The balance loss has scores divided by the sum of all.
  const std::vector<float>& of_sigmoid(const float* logits, float log_sum, const std::int32_t* chosen,
                                       const std::int32_t* places, const float* dweights) {
    const auto experts = static_cast<std::int64_t>(counts_.size());
    float all = kLeast;
    for (std::int64_t i = 0; i < experts; ++i) all += logistic(logits[i]);
    float mean = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      slope_[i] = static_cast<float>(router_.balance * static_cast<double>(counts_[i]));
      mean += slope_[i] * logistic(logits[i]) / all;
    }
    for (float& slope : slope_) slope = (slope - mean) / all;
    float sum = 1;
    float of_chosen = 0;
    if (router_.normalized) {
      sum = kLeast;
      for (std::int64_t j = 0; j < router_.top_k; ++j) sum += logistic(logits[chosen[j]]);
      for (std::int64_t j = 0; j < router_.top_k; ++j)
        of_chosen += dweights[places[j]] * logistic(logits[chosen[j]]) / sum;
    }
    for (std::int64_t j = 0; j < router_.top_k; ++j)
      slope_[static_cast<std::size_t>(chosen[j])] += scale_ * (dweights[places[j]] - of_chosen) / sum;
    const float pull = static_cast<float>(2 * router_.z) * log_sum;
    for (std::size_t i = 0; i < slope_.size(); ++i) {
      const float score = logistic(logits[i]);
      gradient_[i] = slope_[i] * score * (1 - score) + pull * std::exp(logits[i] - log_sum);
    }
    return gradient_;
  }

  const Router& router_;
  const std::vector<std::int64_t>& counts_;
  const float scale_;
  std::vector<float> gradient_;
  std::vector<float> slope_;  // of the probabilities
};

template <class T>
PLUMBLINE_MULTIVERSION void multiply_rows(const Matrix& x, const float* factors, const Matrix& y) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* from = row_of<T>(x, row);
    T* to = row_of<T>(y, row);
    const float factor = factors[row];
    for_lanes(x.cols, [&] PLUMBLINE_LANES { store(to + i, load(from + i, part) * factor, part); });
  }
}

template <class T, class Y>
PLUMBLINE_MULTIVERSION void add_up_rows(const Matrix& x, const std::int32_t* places, std::int64_t count,
                                        const Matrix& y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    Y* to = row_of<Y>(y, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      Lanes sum{};
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int32_t place = places[row * count + j];
        if (place >= 0) sum += load(row_of<T>(x, place) + i, part);
      }
      store(to + i, sum, part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void each_sigmoid(const Matrix& x, const Matrix& y) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* from = row_of<T>(x, row);
    T* to = row_of<T>(y, row);
    for_lanes(x.cols, [&] PLUMBLINE_LANES { store(to + i, sigmoid(load(from + i, part)), part); });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void each_sigmoid_slope(const Matrix& dy, const Matrix& y, const Matrix& dx) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    const T* gradient = row_of<T>(dy, row);
    const T* value = row_of<T>(y, row);
    T* to = row_of<T>(dx, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      const Lanes at = load(value + i, part);
      store(to + i, load(gradient + i, part) * at * (1.0F - at), part);
    });
  }
}

}  // namespace

void CpuOperators::sigmoid_forward(Matrix x, Matrix y) {
  require_sigmoid("sigmoid_forward", x, y, y);
  with_type("sigmoid_forward", x.dtype, [&](auto type) { each_sigmoid<decltype(type)>(x, y); });
}

void CpuOperators::sigmoid_backward(Matrix dy, Matrix y, Matrix dx) {
  require_sigmoid("sigmoid_backward", dy, y, dx);
  with_type("sigmoid_backward", y.dtype, [&](auto type) { each_sigmoid_slope<decltype(type)>(dy, y, dx); });
}

void CpuOperators::route(const Router& router, Matrix logits, Matrix chosen, std::int64_t* counts) {
  require_route(router, logits, chosen);
  ExpertChoice choose(router, logits.cols);
  for (std::int64_t t = 0; t < logits.rows; ++t)
    choose(row_of<float>(logits, t), chosen.as<std::int32_t>() + t * router.top_k);
  const std::vector<std::int64_t> found = tokens_of_experts(chosen, logits.cols);
  std::copy(found.begin(), found.end(), counts);
}

void CpuOperators::arrange(const Router& router, Matrix logits, Matrix chosen, Matrix places, Matrix tokens,
                           Matrix weights) {
  require_arrange(router, logits, chosen, places, tokens, weights);
  const std::vector<std::int64_t> counts = tokens_of_experts(chosen, logits.cols);
  std::vector<std::int64_t> next(counts.size());  // row of every expert's next token
  for (std::size_t i = 1; i < next.size(); ++i) next[i] = next[i - 1] + counts[i - 1];
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const float* row = row_of<float>(logits, t);
    const std::int32_t* mine = chosen.as<std::int32_t>() + t * router.top_k;
    const TokenWeights weight(router, row, logits.cols, mine);
    for (std::int64_t j = 0; j < router.top_k; ++j) {
      const std::int64_t place = next[static_cast<std::size_t>(mine[j])]++;
      places.as<std::int32_t>()[t * router.top_k + j] = static_cast<std::int32_t>(place);
      tokens.as<std::int32_t>()[place] = static_cast<std::int32_t>(t);
      weights.as<float>()[place] = weight(mine[j]);
    }
  }
}

void CpuOperators::route_backward(const Router& router, Matrix logits, Matrix chosen, Matrix places,
                                  Matrix dweights, Matrix dlogits) {
  require_route_backward(router, logits, chosen, places, dweights, dlogits);
  const std::vector<std::int64_t> counts = tokens_of_experts(chosen, logits.cols);
  TokenBackward backward(router, counts);
  std::vector<std::int32_t> in_order;
  if (places.data == nullptr) {
    in_order.resize(static_cast<std::size_t>(dweights.cols));
    std::iota(in_order.begin(), in_order.end(), 0);
    places = Matrix(in_order.data(), 1, dweights.cols, DType::int32);
  }
  with_type("route_backward", dlogits.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t t = 0; t < logits.rows; ++t) {
      const std::int64_t first = t * router.top_k;
      const std::vector<float>& gradient =
          backward(row_of<float>(logits, t), chosen.as<std::int32_t>() + first,
                   places.as<std::int32_t>() + first, dweights.as<float>());
      T* to = row_of<T>(dlogits, t);
      for_lanes(logits.cols, [&] PLUMBLINE_LANES { store(to + i, load(gradient.data() + i, part), part); });
    }
  });
}

void CpuOperators::scale_rows(Matrix x, Matrix factors, Matrix y) {
  require_scale_rows(x, factors, y);
  with_type("scale_rows", x.dtype,
            [&](auto type) { multiply_rows<decltype(type)>(x, factors.as<float>(), y); });
}

void CpuOperators::combine_rows(Matrix x, Matrix places, Matrix y) {
  require_combine_rows(x, places, y);
  const std::int64_t count = places.cols / y.rows;
  with_type("combine_rows", x.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int32_t* of = places.as<std::int32_t>();
    if (y.dtype == DType::fp32) return add_up_rows<T, float>(x, of, count, y);
    add_up_rows<T, T>(x, of, count, y);
  });
}

}  // namespace plumbline::cpu
