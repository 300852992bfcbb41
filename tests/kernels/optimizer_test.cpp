// AdamW, gradient descent, Lion, momentum and norms against double references.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kCount = 83;

/// AdamW as the paper's algorithm 2 writes it, one number at a time.
struct ReferenceAdam {
  Dense parameter, moment1, moment2;
  void step(const Dense& gradient, const AdamStep& s) {
    for (std::size_t i = 0; i < parameter.values.size(); ++i) {
      const double g = gradient.values[i] * s.gradient_scale;
      double& m = moment1.values[i];
      double& v = moment2.values[i];
      m = s.beta1 * m + (1 - s.beta1) * g;
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      const double m_hat = m / (1 - std::pow(s.beta1, static_cast<double>(s.step)));
      const double v_hat = v / (1 - std::pow(s.beta2, static_cast<double>(s.step)));
      double& p = parameter.values[i];
      p -= s.learning_rate * (m_hat / (std::sqrt(v_hat) + s.epsilon) + s.weight_decay * p);
    }
  }
};

TEST(Optimizer, AdamOverSteps) {
  for (const DType type : element_types()) {
    for (const DType gradient_type : element_types()) {
      const std::string what = fmt::format("{} gradients {}", name_of(type), name_of(gradient_type));
      const Guarded parameter = random_matrix(1, kCount, type);
      const Guarded master(1, kCount, DType::fp32);
      operators().copy(parameter, master);
      const Guarded moment1(1, kCount, DType::fp32);
      const Guarded moment2(1, kCount, DType::fp32);
      operators().fill(moment1, 0);
      operators().fill(moment2, 0);
      ReferenceAdam reference{parameter.read(), Dense(1, kCount), Dense(1, kCount)};
      const Matrix kept = type == DType::fp32 ? Matrix{} : master.matrix();
      for (int step = 1; step <= 3; ++step) {
        const Guarded gradient = random_matrix(1, kCount, gradient_type);
        const AdamStep s{.learning_rate = 0.02, .weight_decay = 0.1, .gradient_scale = 0.5, .step = step};
        operators().adam(parameter, gradient, kept, moment1, moment2, s);
        reference.step(gradient.read(), s);
        const Guarded& exact = type == DType::fp32 ? parameter : master;
        expect_close(exact, reference.parameter, 1e-11, what + " parameter");
        expect_close(moment1, reference.moment1, 1e-11, what + " moment 1");
        expect_close(moment2, reference.moment2, 1e-11, what + " moment 2");
        expect_close(parameter, reference.parameter, tolerance(type), what + " stored");
      }
    }
  }
}

TEST(Optimizer, GradientDescent) {
  for (const DType type : element_types()) {
    const Guarded parameter = random_matrix(1, kCount, type);
    const Guarded master(1, kCount, DType::fp32);
    operators().copy(parameter, master);
    const Guarded gradient = random_matrix(1, kCount, DType::fp32);
    const Dense expected = dense(1, kCount, [&](auto, auto j) {
      return 0.98 * parameter.read()(0, j) - 0.05 * gradient.read()(0, j);
    });
    operators().sgd(parameter, gradient, type == DType::fp32 ? Matrix{} : master.matrix(),
                    {.learning_rate = 0.1, .weight_decay = 0.2, .gradient_scale = 0.5});
    expect_close(parameter, expected, tolerance(type), "parameter");
    if (type != DType::fp32) {
      expect_close(master, expected, tolerance(DType::fp32), "master");
    }
  }
}

TEST(Optimizer, LionOverSteps) {
  const LionStep s{.learning_rate = 0.02, .weight_decay = 0.1, .gradient_scale = 0.5};
  for (const DType type : element_types()) {
    for (const DType gradient_type : element_types()) {
      const std::string what = fmt::format("{} gradients {}", name_of(type), name_of(gradient_type));
      const Guarded parameter = random_matrix(1, kCount, type);
      const Guarded master(1, kCount, DType::fp32);
      operators().copy(parameter, master);
      const Guarded momentum(1, kCount, DType::fp32);
      operators().fill(momentum, 0);
      Dense expected = parameter.read();
      Dense average(1, kCount);
      for (int step = 1; step <= 3; ++step) {
        const Guarded gradient = random_matrix(1, kCount, gradient_type);
        operators().lion(parameter, gradient, type == DType::fp32 ? Matrix{} : master.matrix(), momentum, s);
        const Dense g = gradient.read();
        for (std::size_t i = 0; i < expected.values.size(); ++i) {
          const double scaled = 0.5 * g.values[i];
          const double direction = 0.9 * average.values[i] + 0.1 * scaled;
          expected.values[i] -= 0.02 * ((direction > 0   ? 1
                                         : direction < 0 ? -1
                                                         : 0) +
                                        0.1 * expected.values[i]);
          average.values[i] = 0.99 * average.values[i] + 0.01 * scaled;
        }
        expect_close(type == DType::fp32 ? parameter : master, expected, 1e-11, what + " parameter");
        expect_close(momentum, average, 1e-11, what + " momentum");
        expect_close(parameter, expected, tolerance(type), what + " stored");
      }
    }
  }
}

TEST(Optimizer, Momentum) {
  const MomentumStep s{
      .keep = 0.9, .add = 0.2, .of_gradient = 0.3, .of_momentum = 0.8, .gradient_scale = 0.5};
  for (const DType gradient_type : element_types()) {
    for (const DType type : element_types()) {
      const Guarded gradient = random_matrix(1, kCount, gradient_type);
      const Guarded momentum = random_matrix(1, kCount, DType::fp32);
      const Guarded update(1, kCount, type);
      const Dense g = gradient.read();
      const Dense old = momentum.read();
      const Dense expected =
          dense(1, kCount, [&](auto, auto j) { return 0.9 * old(0, j) + 0.2 * 0.5 * g(0, j); });
      operators().momentum(gradient, momentum, update, s);
      expect_close(momentum, expected, 1e-11, "momentum");
      expect_close(update,
                   dense(1, kCount, [&](auto, auto j) { return 0.8 * expected(0, j) + 0.15 * g(0, j); }),
                   tolerance(type), "update");
      const Guarded again(1, kCount, DType::fp32);
      operators().copy(momentum, again);
      operators().momentum(gradient, again, {}, s);
      expect_close(again,
                   dense(1, kCount, [&](auto, auto j) { return 0.9 * expected(0, j) + 0.1 * g(0, j); }),
                   1e-11, "momentum alone");
    }
  }
}

TEST(Optimizer, NormalizesAndSums) {
  for (const DType type : element_types()) {
    const Guarded a = random_matrix(5, 19, type);
    const Guarded b = random_matrix(5, 19, type);
    const Dense left = a.read();
    const Dense right = b.read();
    const Guarded y(5, 19, type);
    operators().weighted_sum(a, 0.75, b, -2, y);
    expect_close(y, dense(5, 19, [&](auto i, auto j) { return 0.75 * left(i, j) - 2 * right(i, j); }),
                 tolerance(type), "sum");
    double squares = 0;
    for (const double value : left.values) squares += value * value;
    operators().normalize(a, 1e-15);
    expect_close(a, dense(5, 19, [&](auto i, auto j) { return left(i, j) / std::sqrt(squares); }),
                 tolerance(type), "normalized");
    operators().fill(b, 0);
    operators().normalize(b, 1e-15);
    expect_close(b, Dense(5, 19), tolerance(type), "zeros");
  }
}

TEST(Optimizer, DisagreementsThrow) {
  const Guarded p(1, 8, DType::fp32);
  const Guarded half(1, 8, DType::bf16);
  const Guarded longer(1, 9, DType::fp32);
  EXPECT_THROW(operators().adam(p, longer, {}, p, p, {}), Error);
  EXPECT_THROW(operators().adam(half, p, {}, p, p, {}), Error);
  EXPECT_THROW(operators().adam(p, p, {}, half, p, {}), Error);
  EXPECT_THROW(operators().adam(p, p, {}, p, p, {.step = 0}), Error);
  EXPECT_THROW(operators().sgd(p, longer, {}, {}), Error);
  EXPECT_THROW(operators().lion(p, p, {}, half, {}), Error);
  EXPECT_THROW(operators().momentum(p, half, {}, {}), Error);
  EXPECT_THROW(operators().momentum(p, p, longer, {}), Error);
  EXPECT_THROW(operators().normalize(p, 0), Error);
  EXPECT_THROW(operators().weighted_sum(p, 1, longer, 1, p), Error);
}

}  // namespace
}  // namespace plumbline::test
