#include "bench/training/optimizers/newton_schulz.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace plumbline::training {
namespace {

struct Coefficients {
  double a, b, c;
};

/// Jordan et al. 2024; and the five sets of KellerJordan/modded-nanogpt@0674386 train_gpt_medium.py, which
/// Megatron-LM's --muon-coefficient-type quintic has, in turn.
constexpr Coefficients kSimple[] = {{3.4445, -4.7750, 2.0315}};
constexpr Coefficients kQuintic[] = {{4.0848, -6.8946, 2.9270},
                                     {3.9505, -6.3029, 2.6377},
                                     {3.7418, -5.5913, 2.3037},
                                     {2.8769, -3.1427, 1.2046},
                                     {2.8366, -3.0525, 1.2012}};

std::span<const Coefficients> coefficients_of(const MuonConfig& config) {
  if (config.coefficient_type == MuonCoefficients::simple) return kSimple;
  return kQuintic;
}

}  // namespace

NewtonSchulzScratch::NewtonSchulzScratch(const TrainingContext& context, std::int64_t side,
                                         std::int64_t elements)
    : gram_(context.make(Category::workspace, "Newton-Schulz inner products", 1, side * side)),
      square_(context.make(Category::workspace, "Newton-Schulz inner products", 1, side * side)),
      product_(context.make(Category::workspace, "Newton-Schulz product", 1, elements)) {}

void orthogonalize(Operators& operators, const MuonConfig& config, const Matrix& x,
                   const NewtonSchulzScratch& scratch) {
  constexpr double kLeastNorm = 1e-15;
  const bool tall = x.rows > x.cols;
  const std::int64_t side = std::min(x.rows, x.cols);
  const Matrix gram = scratch.gram(side);
  const Matrix square = scratch.square(side);
  const Matrix product = scratch.product(x.rows, x.cols);
  const std::span<const Coefficients> sets = coefficients_of(config);
  operators.normalize(x, kLeastNorm);
  for (std::int64_t step = 0; step < config.num_ns_steps; ++step) {
    const Coefficients& k = sets[static_cast<std::size_t>(step) % sets.size()];
    operators.gemm({.a = x, .b = x, .c = gram, .a_transposed = tall, .b_transposed = !tall});
    operators.gemm({.a = gram, .b = gram, .c = square});
    operators.weighted_sum(gram, k.b, square, k.c, square);
    operators.gemm(tall ? Gemm{.a = x, .b = square, .c = product} : Gemm{.a = square, .b = x, .c = product});
    operators.weighted_sum(x, k.a, product, 1, x);
  }
}

double muon_scale(const MuonConfig& config, std::int64_t rows, std::int64_t cols) {
  const auto out = static_cast<double>(rows);
  const auto in = static_cast<double>(cols);
  switch (config.scale_mode) {
    case MuonScale::unit_rms_norm:
      return config.extra_scale_factor * std::sqrt(out / in);
    case MuonScale::shape_scaling:
      return config.extra_scale_factor * std::sqrt(std::max(1.0, out / in));
    case MuonScale::spectral:
      break;
  }
  return config.extra_scale_factor * std::sqrt(std::max(out, in));
}

}  // namespace plumbline::training
