// An MoE layer whose experts drop rows beyond their capacity, or are padded to it, against Megatron-Core's
// definition in double precision. That is every token's probability of every expert, masked column by column.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bench/training/feed_forward/mixture.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::capacity_layer_test {
namespace {

using Numbers = std::vector<double>;

/// Matrices of a layer, row by row; and its input.
struct Layer {
  Numbers x, router, fc1, fc2;
};

struct Sizes {
  std::int64_t tokens, hidden, experts, top_k, ffn, capacity;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

double product(const Numbers& a, std::int64_t row_of_a, const Numbers& b, std::int64_t row_of_b,
               std::int64_t width) {
  return std::inner_product(a.begin() + row_of_a * width, a.begin() + (row_of_a + 1) * width,
                            b.begin() + row_of_b * width, 0.0);
}

/// The places of the `count` largest numbers, of equal ones the first.
std::vector<std::int64_t> largest(const Numbers& of, std::int64_t count) {
  std::vector<std::int64_t> order(of.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return of[static_cast<std::size_t>(a)] > of[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

/// (T, E): weight of an expert's result for a token; 0 where it was not chosen or is dropped. Adds to
/// `drops`.
Numbers probabilities(const Sizes& s, const MixtureConfig& keys, bool normalized, const Layer& layer,
                      std::int64_t& drops) {
  Numbers all(static_cast<std::size_t>(s.tokens * s.experts));
  std::vector<bool> chosen(all.size());
  const auto at = [&](std::int64_t t, std::int64_t e) { return static_cast<std::size_t>(t * s.experts + e); };
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    Numbers scores;
    for (std::int64_t e = 0; e < s.experts; ++e)
      scores.push_back(std::exp(product(layer.x, t, layer.router, e, s.hidden)));
    const std::vector<std::int64_t> mine = largest(scores, s.top_k);
    double sum = 0;
    if (normalized) {
      for (const std::int64_t e : mine) sum += scores[static_cast<std::size_t>(e)];
    } else {
      sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    }
    for (const std::int64_t e : mine) {
      all[at(t, e)] = scores[static_cast<std::size_t>(e)] / sum;
      chosen[at(t, e)] = true;
    }
  }
  for (std::int64_t e = 0; e < s.experts; ++e) {
    Numbers column;
    for (std::int64_t t = 0; t < s.tokens; ++t)
      column.push_back(keys.drop_policy == TokenDropPolicy::position ? (chosen[at(t, e)] ? 1 : 0)
                                                                     : all[at(t, e)]);
    const std::vector<std::int64_t> kept = largest(column, s.capacity);
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      if (std::find(kept.begin(), kept.end(), t) != kept.end()) continue;
      drops += chosen[at(t, e)] ? 1 : 0;
      all[at(t, e)] = 0;
    }
  }
  return all;
}

/// Σ dy·y of the layer's output y.
double loss(const Sizes& s, const MixtureConfig& keys, bool normalized, const Layer& layer, const Numbers& dy,
            Numbers* output = nullptr, std::int64_t* dropped = nullptr) {
  std::int64_t drops = 0;
  const Numbers counts = probabilities(s, keys, normalized, layer, drops);
  if (dropped != nullptr) *dropped = drops;
  Numbers y(static_cast<std::size_t>(s.tokens * s.hidden));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t e = 0; e < s.experts; ++e) {
      const double weight = counts[static_cast<std::size_t>(t * s.experts + e)];
      if (weight == 0) continue;
      Numbers activation;
      for (std::int64_t i = 0; i < s.ffn; ++i) {
        activation.push_back(silu(product(layer.x, t, layer.fc1, e * 2 * s.ffn + i, s.hidden)) *
                             product(layer.x, t, layer.fc1, e * 2 * s.ffn + s.ffn + i, s.hidden));
      }
      for (std::int64_t i = 0; i < s.hidden; ++i)
        y[static_cast<std::size_t>(t * s.hidden + i)] +=
            weight * product(activation, 0, layer.fc2, e * s.hidden + i, s.ffn);
    }
  }
  const double sum = std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  if (output != nullptr) *output = std::move(y);
  return sum;
}

Numbers random_numbers(std::mt19937& random, std::int64_t count, double size) {
  Numbers numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const double even = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
    numbers.push_back(static_cast<float>(size * (2 * even - 1)));
  }
  return numbers;
}

/// A matrix on the host, as the operators take it.
class Held {
 public:
  Held(const Numbers& numbers, std::int64_t cols) : values_(numbers.begin(), numbers.end()), cols_(cols) {}
  Matrix matrix() { return {values_.data(), std::ssize(values_) / cols_, cols_, DType::fp32}; }
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  std::int64_t cols_;
};

/// So far off the reference's largest entry.
void expect_near(const Numbers& expected, const float* found, const std::string& what) {
  double largest_entry = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest_entry = std::max(largest_entry, std::fabs(expected[i]));
    error = std::max(error, std::fabs(expected[i] - static_cast<double>(found[i])));
  }
  EXPECT_LE(error, 1e-5 * largest_entry) << what;
}

/// Central differences of the loss by every number of `of`, which is part of `layer`.
Numbers slopes(Numbers& of, const std::function<double()>& loss_of_layer) {
  constexpr double kStep = 1e-5;
  Numbers found;
  for (double& number : of) {
    const double before = number;
    number = before + kStep;
    const double above = loss_of_layer();
    number = before - kStep;
    found.push_back((above - loss_of_layer()) / (2 * kStep));
    number = before;
  }
  return found;
}

TEST(CapacityLayer, OutputAndGradientsAreThoseOfTheDefinition) {
  std::mt19937 random(5);
  std::int64_t all_drops = 0;
  for (const double factor : {0.4, 1.0, 2.0}) {
    for (const bool padded : {false, true}) {
      for (const bool normalized : {false, true}) {
        for (const TokenDropPolicy policy : {TokenDropPolicy::probs, TokenDropPolicy::position}) {
          RunConfig config;
          config.model = small_mixture(normalized);
          config.model.hidden = 12;
          config.model.ffn = 5;
          config.batch.seq_length = 9;
          config.mixture.capacity_factor = factor;
          config.mixture.pad_to_capacity = padded;
          config.mixture.drop_policy = policy;
          config.numerics.precision = DType::fp32;
          const Sizes s{9, 12, 7, 2, 5, static_cast<std::int64_t>(std::ceil(9 * 2 / 7.0 * factor))};
          Layer layer{random_numbers(random, s.tokens * s.hidden, 1),
                      random_numbers(random, s.experts * s.hidden, 1),
                      random_numbers(random, s.experts * 2 * s.ffn * s.hidden, 0.7),
                      random_numbers(random, s.experts * s.hidden * s.ffn, 0.7)};
          const Numbers dy = random_numbers(random, s.tokens * s.hidden, 1);
          Numbers output;
          std::int64_t drops = 0;
          loss(s, config.mixture, normalized, layer, dy, &output, &drops);

          SoloCommunicator solo;
          const auto operators = make_cpu_operators();
          Arena arena({}, host_memory());
          Seconds spent;
          const TrainingContext context{config, LayerWidths(config), *operators, solo, arena, spent};
          Held x(layer.x, s.hidden), router(layer.router, s.hidden), fc1(layer.fc1, s.hidden),
              fc2(layer.fc2, s.ffn), gradient(dy, s.hidden), y(dy, s.hidden);
          Held drouter(Numbers(layer.router.size()), s.hidden), dfc1(Numbers(layer.fc1.size()), s.hidden),
              dfc2(Numbers(layer.fc2.size()), s.ffn);
          const Fp8Mixture none;
          const MixtureWeights weights{{router.matrix(), fc1.matrix(), fc2.matrix(), {}, {}, {}}, none};
          const MixtureMatrices dweights{drouter.matrix(), dfc1.matrix(), dfc2.matrix(), {}, {}, {}};
          MixtureState state;
          mixture_forward(context, weights, {}, x.matrix(), state);
          mixture_output(context, weights, state, y.matrix());
          expect_near(output, y.values().data(), "output");
          std::int64_t found_drops = 0;
          for (std::size_t e = 0; e < state.routing.chose.size(); ++e) {
            found_drops += std::max<std::int64_t>(0, state.routing.chose[e] - state.routing.counts[e]);
            EXPECT_LE(state.routing.counts[e], s.capacity);
          }
          EXPECT_EQ(found_drops, drops);
          all_drops += drops;
          if (padded) {
            EXPECT_EQ(state.routing.rows(), s.experts * s.capacity);
          }
          const Tensor dx = mixture_backward(
              context, weights, [&] { return dweights; }, x.matrix(), state, Tensor(), gradient.matrix());
          const auto of_layer = [&] { return loss(s, config.mixture, normalized, layer, dy); };
          expect_near(slopes(layer.x, of_layer), dx.matrix().as<float>(), "input");
          expect_near(slopes(layer.router, of_layer), drouter.values().data(), "router");
          expect_near(slopes(layer.fc1, of_layer), dfc1.values().data(), "fc1");
          expect_near(slopes(layer.fc2, of_layer), dfc2.values().data(), "fc2");
        }
      }
    }
  }
  EXPECT_GT(all_drops, 50);
}

}  // namespace
}  // namespace plumbline::training::capacity_layer_test
