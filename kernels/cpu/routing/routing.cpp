// MoE operators.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/routing/expert_choice.hpp"
#include "kernels/cpu/routing/token_weights.hpp"

namespace plumbline::cpu {
namespace {

/// Tokens that chose each expert, dropped or not.
std::vector<std::int64_t> tokens_of_experts(const Matrix& chosen, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
  const std::int32_t* first = chosen.as<std::int32_t>();
  for (std::int64_t i = 0; i < chosen.cols; ++i) ++counts[static_cast<std::size_t>(expert_of(first[i]))];
  return counts;
}

/// Gradient of the weight of every row, 0 for a choice without a row.
class WeightGradients {
 public:
  explicit WeightGradients(const float* of_rows) : of_rows_(of_rows) {}
  float operator[](std::int32_t place) const { return place < 0 ? 0 : of_rows_[place]; }

 private:
  const float* of_rows_;
};

/// Backward of one token. Its weights' gradient goes back through the softmax over all experts, or over the
/// chosen ones if weights are normalized. That of the balance loss goes through the softmax over all.
class TokenBackward {
 public:
  /// `loads`: tokens of every expert that the balance loss has.
  TokenBackward(const Router& router, const std::vector<float>& loads)
      : router_(router),
        loads_(loads),
        scale_(static_cast<float>(router.scale)),
        gradient_(loads.size()),
        slope_(loads.size()) {}

  /// dweights: of row places[j] for the token's choice j.
  const std::vector<float>& operator()(const float* logits, const std::int32_t* chosen,
                                       const std::int32_t* places, const WeightGradients& dweights) {
    const auto experts = static_cast<std::int64_t>(loads_.size());
    const float log_sum = log_sum_exp(logits, experts);
    if (router_.sigmoid) return of_sigmoid(logits, log_sum, chosen, places, dweights);
    std::transform(loads_.begin(), loads_.end(), slope_.begin(), [&](float load) {
      return static_cast<float>(router_.balance * static_cast<double>(load));
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
                     const WeightGradients& dweights) {
    const float log_sum = log_sum_exp(logits, chosen, router_.top_k);
    const auto weight = [&](std::int64_t j) { return std::exp(logits[chosen[j]] - log_sum); };
    float mean = 0;
    for (std::int64_t j = 0; j < router_.top_k; ++j) mean += dweights[places[j]] * weight(j);
    for (std::int64_t j = 0; j < router_.top_k; ++j)
      gradient_[static_cast<std::size_t>(chosen[j])] += scale_ * weight(j) * (dweights[places[j]] - mean);
  }

  /// The balance loss has scores divided by the sum of all.
  const std::vector<float>& of_sigmoid(const float* logits, float log_sum, const std::int32_t* chosen,
                                       const std::int32_t* places, const WeightGradients& dweights) {
    const auto experts = static_cast<std::int64_t>(loads_.size());
    float all = kLeast;
    for (std::int64_t i = 0; i < experts; ++i) all += logistic(logits[i]);
    float mean = 0;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      slope_[i] = static_cast<float>(router_.balance * static_cast<double>(loads_[i]));
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
  const std::vector<float>& loads_;
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
                                        bool accumulate, const Matrix& y) {
  for (std::int64_t row = 0; row < y.rows; ++row) {
    Y* to = row_of<Y>(y, row);
    for_lanes(y.cols, [&] PLUMBLINE_LANES {
      LaneSum sum;
      if (accumulate) sum += load(to + i, part);
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int32_t place = places[row * count + j];
        if (place >= 0) sum += load(row_of<T>(x, place) + i, part);
      }
      store(to + i, sum.lanes(), part);
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
  with_type("sigmoid_forward", x.dtype, [&](auto type) { each_sigmoid<decltype(type)>(x, y); });
}

void CpuOperators::sigmoid_backward(Matrix dy, Matrix y, Matrix dx) {
  with_type("sigmoid_backward", y.dtype, [&](auto type) { each_sigmoid_slope<decltype(type)>(dy, y, dx); });
}

void CpuOperators::route(const Router& router, Matrix logits, Matrix chosen, std::int64_t* counts) {
  choose_experts(router, logits, chosen);
  const std::vector<std::int64_t> found = tokens_of_experts(chosen, logits.cols);
  std::copy(found.begin(), found.end(), counts);
  if (router.capacity > 0) drop_what_is_over(router, logits, chosen);
}

void CpuOperators::arrange(const Router& router, Matrix logits, Matrix chosen, Matrix places, Matrix tokens,
                           Matrix weights) {
  const std::vector<std::int64_t> counts = tokens_of_experts(chosen, logits.cols);
  std::vector<std::int64_t> next(counts.size());  // row of every expert's next token
  for (std::size_t i = 1; i < next.size(); ++i) next[i] = next[i - 1] + router.rows_of(counts[i - 1]);
  // Rows that no token takes are padding of their expert.
  std::fill_n(tokens.as<std::int32_t>(), tokens.cols, 0);
  std::fill_n(weights.as<float>(), weights.cols, 0.0F);
  std::vector<std::int32_t> experts(static_cast<std::size_t>(router.top_k));
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const float* row = row_of<float>(logits, t);
    const std::int32_t* mine = chosen.as<std::int32_t>() + t * router.top_k;
    std::transform(mine, mine + router.top_k, experts.begin(), expert_of);
    const TokenWeights weight(router, row, logits.cols, experts.data());
    for (std::int64_t j = 0; j < router.top_k; ++j) {
      std::int32_t& place = places.as<std::int32_t>()[t * router.top_k + j];
      place = -1;
      if (mine[j] < 0) continue;
      place = static_cast<std::int32_t>(next[static_cast<std::size_t>(mine[j])]++);
      tokens.as<std::int32_t>()[place] = static_cast<std::int32_t>(t);
      weights.as<float>()[place] = weight(mine[j]);
    }
  }
}

void CpuOperators::route_backward(const Router& router, Matrix logits, Matrix chosen, Matrix places,
                                  Matrix dweights, Matrix dlogits) {
  const std::int64_t together = router.balanced_tokens > 0 ? router.balanced_tokens : logits.rows;
  std::vector<float> loads(static_cast<std::size_t>(logits.cols));
  if (router.load.data != nullptr) std::copy_n(router.load.as<float>(), logits.cols, loads.begin());
  TokenBackward backward(router, loads);
  std::vector<std::int32_t> experts(static_cast<std::size_t>(router.top_k));
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
      if (router.load.data == nullptr && t % together == 0) {
        const auto counts = tokens_of_experts(chosen.columns(first, together * router.top_k), logits.cols);
        std::transform(counts.begin(), counts.end(), loads.begin(),
                       [](std::int64_t count) { return static_cast<float>(count); });
      }
      const std::int32_t* mine = chosen.as<std::int32_t>() + first;
      std::transform(mine, mine + router.top_k, experts.begin(), expert_of);
      const std::vector<float>& gradient =
          backward(row_of<float>(logits, t), experts.data(), places.as<std::int32_t>() + first,
                   WeightGradients(dweights.as<float>()));
      T* to = row_of<T>(dlogits, t);
      for_lanes(logits.cols, [&] PLUMBLINE_LANES { store(to + i, load(gradient.data() + i, part), part); });
    }
  });
}

void CpuOperators::scale_rows(Matrix x, Matrix factors, Matrix y) {
  with_type("scale_rows", x.dtype,
            [&](auto type) { multiply_rows<decltype(type)>(x, factors.as<float>(), y); });
}

void CpuOperators::combine_rows(Matrix x, Matrix places, bool accumulate, Matrix y) {
  const std::int64_t count = places.cols / y.rows;
  with_type("combine_rows", x.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int32_t* of = places.as<std::int32_t>();
    if (y.dtype == DType::fp32) return add_up_rows<T, float>(x, of, count, accumulate, y);
    add_up_rows<T, T>(x, of, count, accumulate, y);
  });
}

}  // namespace plumbline::cpu
