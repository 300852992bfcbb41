// Losses of the policy, whole and over a split vocabulary, and of the critic, and their gradients against
// double arithmetic and central differences.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kRows = 9;
constexpr std::int64_t kIgnoredRow = 2;
constexpr double kFactor = 0.25;

double clamp_ratio(double ratio, const PolicyLoss& loss) {
  return std::min(std::max(ratio, 1 - loss.clip_low), 1 + loss.clip_high);
}

/// Log-probabilities of a row in doubles.
std::vector<double> log_softmax_of(const Dense& logits, std::int64_t t) {
  double top = -1e300;
  for (std::int64_t j = 0; j < logits.cols; ++j) top = std::max(top, logits(t, j));
  double sum = 0;
  for (std::int64_t j = 0; j < logits.cols; ++j) sum += std::exp(logits(t, j) - top);
  std::vector<double> log_p;
  for (std::int64_t j = 0; j < logits.cols; ++j) log_p.push_back(logits(t, j) - top - std::log(sum));
  return log_p;
}

/// (rows, 1): weighted loss of every token, straight from the papers' formulas.
Dense policy_losses(const Dense& logits, const Dense& ids, const Dense& tokens, const PolicyLoss& loss) {
  Dense losses(logits.rows, 1);
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    if (ids(0, t) == -100) continue;
    const std::vector<double> log_p = log_softmax_of(logits, t);
    const double own = log_p[static_cast<std::size_t>(ids(0, t))];
    const double ratio = std::exp(own - tokens(0, t));
    const double advantage = tokens(2, t);
    const double r = tokens(1, t) - own;
    const double kl = loss.kl == 1 ? -r : loss.kl == 2 ? r * r / 2 : std::exp(r) - 1 - r;
    double entropy = 0;
    for (const double each : log_p) entropy -= std::exp(each) * each;
    losses(t, 0) = tokens(3, t) * (-std::min(ratio * advantage, clamp_ratio(ratio, loss) * advantage) +
                                   loss.kl_coef * kl - loss.entropy_coef * entropy);
  }
  return losses;
}

void check_policy(std::int64_t vocabulary, std::int64_t shards, const Storage& storage,
                  const PolicyLoss& loss) {
  const std::string name = fmt::format("{} vocabulary {} shards {} KL {}·k{} entropy {}", describe(storage),
                                       vocabulary, shards, loss.kl_coef, loss.kl, loss.entropy_coef);
  const Dense logits = random_matrix(kRows, vocabulary, storage.type, 0, 2).read();
  Guarded targets(1, kRows, DType::int32);
  targets.write(dense(1, kRows, [&](auto, auto t) {
    return t == kIgnoredRow ? -100.0 : static_cast<double>(random_integer(0, vocabulary - 1));
  }));
  const Dense ids = targets.read();
  // Ratios on both sides of the clip range, advantages of both signs, not at its edges.
  const Dense noise = random_matrix(4, kRows, DType::fp32, 0, 1).read();
  Guarded tokens(4, kRows, DType::fp32, 3);
  tokens.write(dense(4, kRows, [&](auto i, auto t) {
    if (t == kIgnoredRow) return std::nan("");
    const double own = log_softmax_of(logits, t)[static_cast<std::size_t>(ids(0, t))];
    if (i == 0) return own + std::array{-0.5, 0.0, 0.4, 0.05}[static_cast<std::size_t>(t % 4)];
    if (i == 1) return own + 0.3 * noise(1, t);
    return i == 2 ? noise(2, t) : 0.1 + std::abs(noise(3, t));
  }));
  const Dense given = tokens.read();

  const std::int64_t width = (vocabulary + shards - 1) / shards;
  std::vector<Guarded> parts;
  std::vector<std::int64_t> valid;
  Dense all_max = dense(1, kRows, [](auto, auto) { return -1e300; });
  const Guarded row_max(1, kRows, DType::fp32);
  const Guarded entropies(1, kRows, DType::fp32);
  const Guarded sums(2, kRows, DType::fp32, 1);
  const Guarded factors(3, kRows, DType::fp32, 2);
  for (std::int64_t s = 0; s < shards; ++s) {
    const std::int64_t first = s * width;
    valid.push_back(std::max<std::int64_t>(0, std::min(width, vocabulary - first)));
    parts.emplace_back(kRows, width, storage.type, storage.gap);
    parts.back().write(dense(kRows, width, [&](auto t, auto j) {
      return j < valid.back() ? logits(t, first + j) : 1e30;  // padding must not be looked at
    }));
    operators().cross_entropy_max(parts.back(), valid.back(), row_max);
    for (std::int64_t t = 0; t < kRows; ++t) all_max(0, t) = std::max(all_max(0, t), row_max.read()(0, t));
  }
  operators().upload(std::vector<float>(all_max.values.begin(), all_max.values.end()).data(), row_max);
  Dense all_sums(3, kRows);
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto at = static_cast<std::size_t>(s);
    operators().cross_entropy_sums(parts[at], valid[at], s * width, targets, row_max, sums);
    operators().entropy_sums(parts[at], valid[at], row_max, entropies);
    for (std::int64_t t = 0; t < kRows; ++t) {
      all_sums(0, t) += sums.read()(0, t);
      all_sums(1, t) += sums.read()(1, t);
      all_sums(2, t) += entropies.read()(0, t);
    }
  }
  Guarded reduced(2, kRows, DType::fp32);
  reduced.write(dense(2, kRows, [&](auto i, auto t) { return all_sums(i, t); }));
  Guarded reduced_entropies(1, kRows, DType::fp32);
  reduced_entropies.write(dense(1, kRows, [&](auto, auto t) { return all_sums(2, t); }));

  const Dense losses = policy_losses(logits, ids, given, loss);
  double expected_loss = 0;
  double size = 0;
  for (const double each : losses.values) {
    expected_loss += each;
    size += std::abs(each);
  }
  const double found_loss = value_of(operators().policy_loss(
      targets, reduced, loss.entropy_coef == 0 ? Matrix() : reduced_entropies.matrix(), tokens, loss, kFactor,
      factors));
  expect_within(found_loss, expected_loss, 1e-5 * (1 + size), name + ": loss");
  EXPECT_TRUE(factors.intact()) << name;

  const Dense weights = dense(kRows, 1, [](auto, auto) { return kFactor; });
  const Dense gradient =
      numerical_gradient([&](const Dense& x) { return policy_losses(x, ids, given, loss); }, logits, weights);
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto at = static_cast<std::size_t>(s);
    operators().policy_gradient(parts[at], valid[at], s * width, targets, row_max, factors);
    const auto column = [&](std::int64_t t, std::int64_t j) {
      return j < valid[at] ? gradient(t, s * width + j) : 0.0;
    };
    // A target's entry is a difference of the weight's size.
    const auto terms = [&](std::int64_t t, std::int64_t /*j*/) {
      return t == kIgnoredRow ? 0 : kFactor * given(3, t) * (1 + std::abs(given(2, t))) * 10;
    };
    expect_close(parts[at], dense(kRows, width, column), tolerance(storage.type), name + ": gradient",
                 dense(kRows, width, terms));
    const Dense found = parts[at].read();
    for (std::int64_t t = 0; t < kRows; ++t) {
      for (std::int64_t j = 0; j < width; ++j) {
        const bool zero = j >= valid[at] || t == kIgnoredRow;
        EXPECT_TRUE(!zero || found(t, j) == 0) << name << " " << t << "," << j;
      }
    }
  }
}

TEST(PolicyLoss, WholeAndSharded) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t vocabulary : {2, 16, 101}) {
      for (const std::int64_t shards : {1, 3}) {
        check_policy(vocabulary, shards, storage, {.clip_low = 0.2, .clip_high = 0.28, .entropy_coef = 0.3});
        for (const int kl : {1, 2, 3})
          check_policy(vocabulary, shards, storage,
                       {.clip_low = 0.1, .clip_high = 0.2, .kl_coef = 0.7, .kl = kl});
      }
    }
  }
}

/// Column of token losses: half the larger square of the value's error and of the clipped value's.
Dense value_losses(const Dense& values, const Dense& ids, const Dense& tokens, double clip) {
  Dense losses(values.rows, 1);
  for (std::int64_t t = 0; t < values.rows; ++t) {
    if (ids(0, t) == -100) continue;
    const double near = std::clamp(values(t, 0), tokens(0, t) - clip, tokens(0, t) + clip);
    losses(t, 0) = tokens(3, t) * 0.5 *
                   std::max(std::pow(values(t, 0) - tokens(2, t), 2.0), std::pow(near - tokens(2, t), 2.0));
  }
  return losses;
}

void check_values(std::int64_t rows, const Storage& storage, double clip) {
  const std::string name = fmt::format("{} {} values clipped by {}", describe(storage), rows, clip);
  Guarded targets(1, rows, DType::int32);
  targets.write(dense(1, rows, [](auto, auto t) { return t % 5 == kIgnoredRow ? -100.0 : 7.0; }));
  const Dense ids = targets.read();
  Guarded values(1, rows, DType::fp32);
  Guarded tokens(4, rows, DType::fp32, 3);
  // Values below, within and above the clip range, goals on both sides.
  values.write(dense(1, rows, [](auto, auto t) {
    return std::array{-0.9, 0.05, 0.8}[static_cast<std::size_t>(t % 3)] + 0.001 * t;
  }));
  tokens.write(dense(4, rows, [&](auto i, auto t) {
    if (t % 5 == kIgnoredRow || i == 1) return std::nan("");
    return i == 0   ? 0.01 * (t % 7)
           : i == 2 ? std::array{-1.5, -0.2, 0.3, 1.7}[static_cast<std::size_t>(t % 4)]
                    : 0.1 + 0.03 * t;
  }));
  const Dense given = tokens.read();
  Dense column(rows, 1);
  for (std::int64_t t = 0; t < rows; ++t) column(t, 0) = values.read()(0, t);
  const Guarded gradient(rows, 1, storage.type, storage.gap);
  double expected_loss = 0;
  for (const double each : value_losses(column, ids, given, clip).values) expected_loss += each;
  const double found = value_of(operators().value_loss(targets, values, tokens, clip, kFactor, gradient));
  expect_within(found, expected_loss, 1e-5 * (1 + expected_loss), name + ": loss");
  const Dense weights = dense(rows, 1, [](auto, auto) { return kFactor; });
  const auto losses = [&](const Dense& x) { return value_losses(x, ids, given, clip); };
  expect_close(gradient, numerical_gradient(losses, column, weights), tolerance(storage.type),
               name + ": gradient");
  EXPECT_TRUE(gradient.intact() && values.intact() && tokens.intact()) << name;
}

TEST(ValueLoss, EqualsDoubleArithmetic) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t rows : {1, 9, 131}) {
      for (const double clip : {0.0, 0.2, 100.0}) check_values(rows, storage, clip);
    }
  }
}

TEST(ValueLoss, DisagreementsThrow) {
  const Guarded targets(1, 3, DType::int32);
  const Guarded row(1, 3, DType::fp32);
  const Guarded tokens(4, 3, DType::fp32);
  const Guarded column(3, 1, DType::bf16);
  EXPECT_THROW(operators().value_loss(targets, row, tokens, 0.2, 1, row), Error);
  EXPECT_THROW(operators().value_loss(targets, column, tokens, 0.2, 1, column), Error);
  EXPECT_THROW(operators().value_loss(targets, row, row, 0.2, 1, column), Error);
  EXPECT_THROW(operators().value_loss(targets, row, tokens, -1, 1, column), Error);
}

TEST(PolicyLoss, DisagreementsThrow) {
  const Guarded logits(3, 8, DType::fp32);
  const Guarded row(1, 3, DType::fp32);
  const Guarded sums(2, 3, DType::fp32);
  const Guarded factors(3, 3, DType::fp32);
  const Guarded tokens(4, 3, DType::fp32);
  const Guarded targets(1, 3, DType::int32);
  EXPECT_THROW(operators().entropy_sums(logits, 9, row, row), Error);
  EXPECT_THROW(operators().policy_loss(targets, sums, {}, factors, {}, 1, factors), Error);
  EXPECT_THROW(operators().policy_loss(targets, sums, {}, tokens, {.entropy_coef = 1}, 1, factors), Error);
  EXPECT_THROW(operators().policy_loss(targets, sums, {}, tokens, {.kl = 4}, 1, factors), Error);
  EXPECT_THROW(operators().policy_gradient(logits, 8, 0, targets, row, sums), Error);
}

}  // namespace
}  // namespace plumbline::test
