// An FP8 layer of experts against bench/training/fp8.md, written out once more in double precision: quantized
// tensors, owners of their scales, and rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/training/feed_forward/mixture.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"
#include "tests/kernels/fp8_reference.hpp"

namespace plumbline::training::fp8_layer_test {
namespace {

constexpr std::int64_t kTokens = 32, kHidden = 16, kWidth = 16, kExperts = 32, kTopK = 2;

/// Row by row.
struct Rows {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values = std::vector<double>(static_cast<std::size_t>(rows * cols));

  double& at(std::int64_t row, std::int64_t col) {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
  double at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
  Rows part(std::int64_t first, std::int64_t count) const {
    Rows result{count, cols};
    std::copy_n(values.begin() + first * cols, count * cols, result.values.begin());
    return result;
  }
};

/// Result of the definition, with and without quantization.
struct Definition {
  bool quantizes = true;
  Rows x{kTokens, kHidden}, dy{kTokens, kHidden}, router{kExperts, kHidden};
  Rows fc1{kExperts * 2 * kWidth, kHidden}, fc2{kExperts * kHidden, kWidth};
  // Results.
  Rows y{kTokens, kHidden}, dx{kTokens, kHidden}, drouter{kExperts, kHidden};
  Rows dfc1{kExperts * 2 * kWidth, kHidden}, dfc2{kExperts * kHidden, kWidth};
  std::vector<std::int64_t> rows_of_experts;

  Rows quantized(const Rows& all, DType type) const {
    if (!quantizes) return all;
    double largest = 0;
    for (const double value : all.values) largest = std::max(largest, std::fabs(value));
    const double scale = largest > 0 ? (type == DType::fp8_e5m2 ? 57344.0 : 448.0) / largest : 1;
    Rows result = all;
    for (double& value : result.values)
      value = test::fp8_value(type, test::fp8_code(type, static_cast<float>(value * scale))) / scale;
    return result;
  }

  void run() {
    Rows weights{kTokens, kExperts};
    Rows dweights{kTokens, kExperts};
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::vector<std::pair<double, std::int64_t>> logits;
      for (std::int64_t e = 0; e < kExperts; ++e) {
        double sum = 0;
        for (std::int64_t i = 0; i < kHidden; ++i) sum += x.at(t, i) * router.at(e, i);
        logits.emplace_back(-sum, e);
      }
      std::sort(logits.begin(), logits.end());
      double sum = 0;
      for (std::int64_t j = 0; j < kTopK; ++j) sum += std::exp(-logits[static_cast<std::size_t>(j)].first);
      for (std::int64_t j = 0; j < kTopK; ++j) {
        const auto& [logit, e] = logits[static_cast<std::size_t>(j)];
        weights.at(t, e) = std::exp(-logit) / sum;
      }
    }
    for (std::int64_t e = 0; e < kExperts; ++e) expert(e, weights, dweights);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      double mean = 0;
      for (std::int64_t e = 0; e < kExperts; ++e) mean += weights.at(t, e) * dweights.at(t, e);
      for (std::int64_t e = 0; e < kExperts; ++e) {
        const double dlogit = weights.at(t, e) * (dweights.at(t, e) - mean);
        for (std::int64_t i = 0; i < kHidden; ++i) {
          drouter.at(e, i) += dlogit * x.at(t, i);
          dx.at(t, i) += dlogit * router.at(e, i);
        }
      }
    }
  }

  void expert(std::int64_t e, const Rows& weights, Rows& dweights) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      if (weights.at(t, e) > 0) tokens.push_back(t);
    }
    const auto chose = static_cast<std::int64_t>(tokens.size());
    rows_of_experts.push_back((chose + 15) / 16 * 16);
    if (chose == 0) return;
    tokens.resize(static_cast<std::size_t>(rows_of_experts.back()), 0);
    const std::int64_t n = std::ssize(tokens);
    const auto weight = [&](std::int64_t row) {
      return row < chose ? weights.at(tokens[static_cast<std::size_t>(row)], e) : 0;
    };
    Rows input{n, kHidden};
    Rows gradient{n, kHidden};
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < kHidden; ++i) {
        input.at(row, i) = x.at(tokens[static_cast<std::size_t>(row)], i);
        gradient.at(row, i) = dy.at(tokens[static_cast<std::size_t>(row)], i);
      }
    }
    input = quantized(input, DType::fp8_e4m3);
    gradient = quantized(gradient, DType::fp8_e5m2);
    const Rows w1 = quantized(fc1.part(e * 2 * kWidth, 2 * kWidth), DType::fp8_e4m3);
    const Rows w2 = quantized(fc2.part(e * kHidden, kHidden), DType::fp8_e4m3);
    Rows plain{n, kWidth};  // the activation without weights
    Rows slope{n, 2 * kWidth};
    Rows activation{n, kWidth};
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < kWidth; ++i) {
        double gate = 0;
        double up = 0;
        for (std::int64_t j = 0; j < kHidden; ++j) {
          gate += input.at(row, j) * w1.at(i, j);
          up += input.at(row, j) * w1.at(kWidth + i, j);
        }
        const double sigmoid = 1 / (1 + std::exp(-gate));
        plain.at(row, i) = gate * sigmoid * up;
        slope.at(row, i) = up * sigmoid * (1 + gate * (1 - sigmoid));
        slope.at(row, kWidth + i) = gate * sigmoid;
        activation.at(row, i) = weight(row) * plain.at(row, i);
      }
    }
    activation = quantized(activation, DType::fp8_e4m3);
    Rows of_fc1{n, 2 * kWidth};
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < kWidth; ++i) {
        double dact = 0;
        for (std::int64_t j = 0; j < kHidden; ++j) {
          dact += gradient.at(row, j) * w2.at(j, i);
          if (row < chose)
            y.at(tokens[static_cast<std::size_t>(row)], j) += activation.at(row, i) * w2.at(j, i);
          dfc2.at(e * kHidden + j, i) += gradient.at(row, j) * activation.at(row, i);
        }
        if (row < chose) dweights.at(tokens[static_cast<std::size_t>(row)], e) += dact * plain.at(row, i);
        of_fc1.at(row, i) = weight(row) * dact * slope.at(row, i);
        of_fc1.at(row, kWidth + i) = weight(row) * dact * slope.at(row, kWidth + i);
      }
    }
    of_fc1 = quantized(of_fc1, DType::fp8_e5m2);
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < 2 * kWidth; ++i) {
        for (std::int64_t j = 0; j < kHidden; ++j) {
          dfc1.at(e * 2 * kWidth + i, j) += of_fc1.at(row, i) * input.at(row, j);
          if (row < chose) dx.at(tokens[static_cast<std::size_t>(row)], j) += of_fc1.at(row, i) * w1.at(i, j);
        }
      }
    }
  }
};

/// On the host, as the operators take it.
class Held {
 public:
  explicit Held(const Rows& rows)
      : values_(rows.values.begin(), rows.values.end()), rows_(rows.rows), cols_(rows.cols) {}
  Matrix matrix() { return {values_.data(), rows_, cols_, DType::fp32}; }

 private:
  std::vector<float> values_;
  std::int64_t rows_, cols_;
};

/// The root mean square of the differences, over that of the numbers.
double error_of(const std::vector<double>& expected, const float* found) {
  double squares = 0;
  double differences = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    differences += std::pow(expected[i] - static_cast<double>(found[i]), 2);
  }
  return std::sqrt(differences / squares);
}

/// Expects the definition's numbers, and not those without quantization.
void expect_of(const Rows& expected, const Rows& without, const Matrix& found, const char* what) {
  // A number next to where rounding changes may come out a step away.
  EXPECT_LE(error_of(expected.values, found.as<float>()), 2e-3) << what;
  EXPECT_GE(error_of(without.values, found.as<float>()), 1e-2) << what;
}

TEST(Fp8Layer, OutputAndGradientsAreThoseOfTheDefinition) {
  std::mt19937 random(3);
  Definition expected;
  for (Rows* rows : {&expected.x, &expected.dy, &expected.router, &expected.fc1, &expected.fc2}) {
    for (double& value : rows->values) {
      const double even = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
      value = static_cast<float>(2 * even - 1);
    }
  }
  Definition without = expected;
  without.quantizes = false;
  expected.run();
  without.run();
  const std::vector<std::int64_t>& rows = expected.rows_of_experts;
  ASSERT_GT(std::count(rows.begin(), rows.end(), 0), 0) << "an expert without rows";

  RunConfig config;
  config.model = small_mixture(true);
  config.model.layers = 1;
  config.model.hidden = kHidden;
  config.model.ffn = kWidth;
  config.model.mixture = {kExperts, kTopK, true};
  config.batch.seq_length = kTokens;
  config.numerics.precision = DType::fp32;
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  set_layout(config, Layout{});
  SoloCommunicator solo;
  const auto operators = make_cpu_operators();
  Arena arena({}, host_memory());
  Seconds spent;
  const TrainingContext context{config, LayerWidths(config), *operators, solo, arena, spent};
  const RankParameters parameters = rank_parameters(config, StageMap(schedule_for(config)), {});
  Fp8Slots slots(context, parameters, SlotsOf::experts);
  const auto linear_layer = [&](LinearLayer linear) {
    const auto slot = [&](SlotKind kind) { return Fp8Slot(slots, {0, linear, kind}); };
    return Fp8Linear{slot(SlotKind::input), slot(SlotKind::weight), slot(SlotKind::gradient), {}, {}};
  };
  const Fp8Mixture fp8{linear_layer(LinearLayer::fc1), linear_layer(LinearLayer::fc2), {}, {}};
  for (const bool split : {false, true}) {
    SCOPED_TRACE(split);
    Held x(expected.x), dy(expected.dy), router(expected.router), fc1(expected.fc1), fc2(expected.fc2);
    Held y(expected.y), drouter(Rows{kExperts, kHidden}), dfc1(Rows{kExperts * 2 * kWidth, kHidden}),
        dfc2(Rows{kExperts * kHidden, kWidth});
    const MixtureWeights weights{{router.matrix(), fc1.matrix(), fc2.matrix(), {}, {}, {}}, fp8};
    const MixtureMatrices dweights{drouter.matrix(), dfc1.matrix(), dfc2.matrix(), {}, {}, {}};
    MixtureState state;
    mixture_forward(context, weights, {}, x.matrix(), state);
    mixture_output(context, weights, state, y.matrix());
    EXPECT_EQ(state.routing.counts, rows);
    Tensor dx;
    if (split) {
      dx = mixture_backward_input(context, weights, state, dy.matrix());
      mixture_output_weight(context, fp8, dweights, state, dy.matrix());
      mixture_input_weight(context, fp8, dweights, x.matrix(), state);
    } else {
      dx = mixture_backward(
          context, weights, [&] { return dweights; }, x.matrix(), state, Tensor(), dy.matrix());
    }
    expect_of(expected.y, without.y, y.matrix(), "output");
    expect_of(expected.dx, without.dx, dx, "input");
    expect_of(expected.drouter, without.drouter, drouter.matrix(), "router");
    expect_of(expected.dfc1, without.dfc1, dfc1.matrix(), "fc1");
    expect_of(expected.dfc2, without.dfc2, dfc2.matrix(), "fc2");
  }
}

}  // namespace
}  // namespace plumbline::training::fp8_layer_test
