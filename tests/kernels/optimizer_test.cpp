// AdamW and gradient descent over several steps against double references.
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
    const Dense expected =
        dense(1, kCount, [&](auto, auto j) { return parameter.read()(0, j) - 0.05 * gradient.read()(0, j); });
    operators().sgd(parameter, gradient, type == DType::fp32 ? Matrix{} : master.matrix(), 0.1, 0.5);
    expect_close(parameter, expected, tolerance(type), "parameter");
    if (type != DType::fp32) {
      expect_close(master, expected, tolerance(DType::fp32), "master");
    }
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
  EXPECT_THROW(operators().sgd(p, longer, {}, 1, 1), Error);
}

}  // namespace
}  // namespace plumbline::test
