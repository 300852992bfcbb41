// Cross-entropy of vocabulary parallelism: each shard's softmax by itself, the combination, and both
// gradients against the whole vocabulary in double arithmetic.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kTokens = 7;
constexpr std::int64_t kHidden = 19;
constexpr double kScale = 0.25;

/// One shard's columns and the facts that all shards know of it.
struct Shard {
  Guarded logits;
  Guarded table;
  std::int64_t valid;
};

/// A vocabulary of `real` ids in shards of `columns`.
struct Case {
  std::int64_t real;
  std::int64_t shards;
  std::int64_t columns;
  double spread;
};

/// The whole thing in doubles.
struct Reference {
  Dense gradient;        // of the logits
  Dense terms;           // the probability, stored and off by the size of its exponent, and the one it loses
  Dense input_gradient;  // of the output layer's input
  Dense input_terms;
  double loss = 0;
};

/// `rounding` is that of a stored probability in the unit of fp32's.
Reference reference_of(const Dense& logits, const Dense& table, const Dense& ids, double rounding) {
  const Dense empty(logits.rows, logits.cols);
  Reference result{empty, empty, Dense(logits.rows, table.cols), Dense(logits.rows, table.cols)};
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    if (ids(0, t) == -100) continue;
    const auto target = static_cast<std::int64_t>(ids(0, t));
    double top = logits(t, 0);
    for (std::int64_t j = 0; j < logits.cols; ++j) top = std::max(top, logits(t, j));
    double total = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) total += std::exp(logits(t, j) - top);
    result.loss += std::log(total) - (logits(t, target) - top);
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double probability = std::exp(logits(t, j) - top) / total * kScale;
      const double one = j == target ? kScale : 0;
      const double terms = probability * (rounding + top - logits(t, j)) + one + kUnderflow;
      result.gradient(t, j) = probability - one;
      result.terms(t, j) = terms;
      for (std::int64_t k = 0; k < table.cols; ++k) {
        result.input_gradient(t, k) += (probability - one) * table(j, k);
        result.input_terms(t, k) += terms * std::abs(table(j, k));
      }
    }
  }
  return result;
}

Guarded targets_of(const Case& which) {
  Guarded targets(1, kTokens, DType::int32);
  Dense ids =
      dense(1, kTokens, [&](auto, auto) { return static_cast<double>(random_integer(0, which.real - 1)); });
  ids(0, 2) = -100;
  ids(0, 3) = static_cast<double>(which.real - 1);
  ids(0, 4) = 0;
  targets.write(ids);
  return targets;
}

void check(const Case& which, const Storage& storage) {
  const std::string what = fmt::format("{}: {} ids in {} shards of {}", describe(storage), which.real,
                                       which.shards, which.columns);
  const Dense logits = random_matrix(kTokens, which.real, storage.type, 0, which.spread).read();
  const Dense table = random_matrix(which.real, kHidden, storage.type).read();
  const Guarded targets = targets_of(which);
  const Dense ids = targets.read();
  const double rounding = std::sqrt(tolerance(storage.type) / tolerance(DType::fp32));
  const Reference expected = reference_of(logits, table, ids, rounding);

  std::vector<Shard> shards;
  const Guarded gathered(3 * which.shards, kTokens, DType::fp32);
  const Matrix rows = gathered;
  for (std::int64_t s = 0; s < which.shards; ++s) {
    const std::int64_t first = s * which.columns;
    const std::int64_t valid = std::max<std::int64_t>(0, std::min(which.columns, which.real - first));
    Shard shard{Guarded(kTokens, which.columns, storage.type, storage.gap),
                Guarded(which.columns, kHidden, storage.type, storage.gap), valid};
    // Padding must not be looked at.
    shard.logits.write(dense(kTokens, which.columns,
                             [&](auto i, auto j) { return j < valid ? logits(i, first + j) : 1e4; }));
    shard.table.write(
        dense(which.columns, kHidden, [&](auto i, auto j) { return i < valid ? table(first + i, j) : 0; }));
    const Matrix row_max = rows.row_range(3 * s, 1);
    operators().cross_entropy_max(shard.logits, valid, row_max);
    operators().cross_entropy_sums(shard.logits, valid, first, targets, row_max,
                                   rows.row_range(3 * s + 1, 2));
    const Dense found = gathered.read();
    for (std::int64_t t = 0; t < kTokens && valid == 0; ++t) {
      EXPECT_EQ(found(3 * s + 1, t), 0) << what << ": the sum of no column";
      EXPECT_EQ(found(3 * s + 2, t), 0) << what;
    }
    operators().vocab_softmax(shard.logits, valid, row_max, rows.row_range(3 * s + 1, 1));
    // One shard's probabilities, and how far their exponents may put them off.
    const auto own = [&](std::int64_t t, std::int64_t j, double off) {
      if (j >= valid) return 0.0;
      const double exponent = logits(t, first + j) - found(3 * s, t);
      return std::exp(exponent) / found(3 * s + 1, t) * (1 - off * exponent) + off * kUnderflow;
    };
    expect_close(shard.logits, dense(kTokens, which.columns, [&](auto t, auto j) { return own(t, j, 0); }),
                 tolerance(storage.type), what + ": softmax",
                 dense(kTokens, which.columns, [&](auto t, auto j) { return own(t, j, 1); }));
    shards.push_back(std::move(shard));
  }

  Dense input_gradient(kTokens, kHidden);
  for (std::int64_t s = 0; s < which.shards; ++s) {
    Shard& shard = shards[static_cast<std::size_t>(s)];
    const std::int64_t first = s * which.columns;
    const Guarded alpha(1, kTokens, DType::fp32);
    const double loss = value_of(operators().vocab_combine(gathered, targets, which.columns, s, alpha));
    expect_within(loss, expected.loss, 1e-5 * (1 + expected.loss), what + ": loss");
    EXPECT_TRUE(alpha.intact());

    // The product before alpha was known, and with a row of the table for every token.
    const Dense softmax = shard.logits.read();
    const Dense kept = shard.table.read();
    Guarded product(kTokens, kHidden, DType::fp32, storage.gap);
    Guarded again(kTokens, kHidden, DType::fp32, storage.gap);
    const Dense sums = dense(kTokens, kHidden, [&](auto t, auto k) {
      double sum = 0;
      for (std::int64_t j = 0; j < which.columns; ++j) sum += softmax(t, j) * kept(j, k);
      return sum;
    });
    product.write(sums);
    again.write(sums);
    operators().vocab_input_gradient(product, shard.table, first, targets, alpha, kScale);
    const Guarded target_rows(kTokens, kHidden, storage.type, storage.gap);
    operators().embedding_forward(targets, shard.table, first, target_rows);
    operators().vocab_input_gradient(again, target_rows, kRowPerToken, targets, alpha, kScale);
    EXPECT_EQ(product.bytes(), again.bytes()) << what << ": a row per token";
    EXPECT_TRUE(product.intact()) << what;
    const Dense part = product.read();
    for (std::size_t i = 0; i < part.values.size(); ++i) input_gradient.values[i] += part.values[i];

    operators().vocab_gradient(shard.logits, shard.valid, first, targets, alpha, kScale);
    const auto columns = [&](const Dense& all) {
      return dense(kTokens, which.columns,
                   [&](auto t, auto j) { return j < shard.valid ? all(t, first + j) : 0; });
    };
    expect_close(shard.logits, columns(expected.gradient), tolerance(storage.type), what + ": gradient",
                 columns(expected.terms));
    const Dense found = shard.logits.read();
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < which.columns; ++j) {
        const bool zero = j >= shard.valid || t == 2;
        EXPECT_TRUE(!zero || found(t, j) == 0) << what << " " << t << "," << j;
      }
    }
    for (std::int64_t k = 0; k < kHidden; ++k) EXPECT_EQ(part(2, k), 0) << what << ": masked";
  }
  expect_close(input_gradient, expected.input_gradient, tolerance(DType::fp32), what + ": input gradient",
               expected.input_terms);
}

TEST(VocabularyParallel, ShardsGiveTheWhole) {
  for (const Storage& storage : storages()) {
    check({1, 1, 1, 2}, storage);
    check({50, 1, 56, 2}, storage);
    check({101, 4, 32, 2}, storage);  // the last one odd
    check({33, 4, 16, 2}, storage);   // a shard with one id, one with none
    check({7, 8, 2, 2}, storage);     // several with none
  }
}

TEST(VocabularyParallel, LargeLogitsDoNotOverflow) {
  check({40, 3, 16, 200}, {DType::fp32, 0});
}

TEST(VocabularyParallel, TwoCallsGiveTheSameBits) {
  const Guarded gathered = random_matrix(15, 301, DType::fp32);
  Guarded targets(1, 301, DType::int32);
  targets.write(dense(1, 301, [](auto, auto t) { return static_cast<double>(t % 40); }));
  // Sums are positive.
  for (std::int64_t row = 1; row < 15; row += 3) operators().fill(gathered.matrix().row_range(row, 1), 1.5);
  const Guarded alpha(1, 301, DType::fp32);
  const double loss = value_of(operators().vocab_combine(gathered, targets, 8, 2, alpha));
  const Guarded again(1, 301, DType::fp32);
  EXPECT_EQ(value_of(operators().vocab_combine(gathered, targets, 8, 2, again)), loss);
  EXPECT_EQ(again.bytes(), alpha.bytes());
}

TEST(VocabularyParallel, DisagreementsThrow) {
  const Guarded logits(3, 8, DType::fp32);
  const Guarded row(1, 3, DType::fp32);
  const Guarded gathered(6, 3, DType::fp32);
  const Guarded targets(1, 3, DType::int32);
  const Guarded product(3, 5, DType::fp32);
  const Guarded table(8, 5, DType::fp32);
  EXPECT_THROW(operators().vocab_softmax(logits, 9, row, row), Error);
  EXPECT_THROW(operators().vocab_softmax(logits, 8, row, targets), Error);
  EXPECT_THROW(operators().vocab_combine(gathered, targets, 8, 2, row), Error);
  EXPECT_THROW(operators().vocab_combine(gathered.matrix().row_range(0, 5), targets, 8, 0, row), Error);
  EXPECT_THROW(operators().vocab_gradient(logits, 8, 0, row, row, 1), Error);
  EXPECT_THROW(operators().vocab_input_gradient(product, logits, 0, targets, row, 1), Error);
  EXPECT_THROW(operators().vocab_input_gradient(product, table, kRowPerToken, targets, row, 1), Error);
}

}  // namespace
}  // namespace plumbline::test
