// Embeddings and cross-entropy, whole and split into shards of the vocabulary.
#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

Guarded random_tokens(std::int64_t count, std::int64_t vocabulary) {
  Guarded tokens(1, count, DType::int32);
  tokens.write(
      dense(1, count, [&](auto, auto) { return static_cast<double>(random_integer(0, vocabulary - 1)); }));
  return tokens;
}

TEST(Embedding, GatherAndScatterWithinAShard) {
  constexpr std::int64_t kTokens = 40;
  constexpr std::int64_t kFirst = 5;
  constexpr std::int64_t kRows = 8;
  for (const Storage& storage : storages()) {
    const Guarded tokens = random_tokens(kTokens, 20);
    const Dense ids = tokens.read();
    const Guarded table = random_matrix(kRows, 19, storage.type, storage.gap);
    const Guarded y(kTokens, 19, storage.type, storage.gap);
    operators().embedding_forward(tokens, table, kFirst, y);
    const auto row_of = [&](std::int64_t t) { return static_cast<std::int64_t>(ids(0, t)) - kFirst; };
    const auto owned = [&](std::int64_t t) { return row_of(t) >= 0 && row_of(t) < kRows; };
    expect_close(
        y, dense(kTokens, 19, [&](auto t, auto j) { return owned(t) ? table.read()(row_of(t), j) : 0; }), 0,
        describe(storage));
    for (const DType gradient : {DType::fp32, storage.type}) {
      const Guarded dy = random_matrix(kTokens, 19, storage.type, storage.gap);
      const Guarded dtable = random_matrix(kRows, 19, gradient, storage.gap);
      Dense expected = dtable.read();
      for (std::int64_t t = 0; t < kTokens; ++t) {
        for (std::int64_t j = 0; j < 19 && owned(t); ++j) expected(row_of(t), j) += dy.read()(t, j);
      }
      operators().embedding_backward(tokens, dy, kFirst, dtable);
      // A bf16 gradient is rounded once per token that adds to it.
      expect_close(dtable, expected, 10 * tolerance(gradient), describe(storage));
    }
  }
}

TEST(Embedding, Positions) {
  constexpr std::int64_t kSeq = 4;
  for (const Storage& storage : storages()) {
    const Guarded x = random_matrix(3 * kSeq, 21, storage.type, storage.gap);
    const Guarded table = random_matrix(kSeq + 2, 21, storage.type);
    const Dense expected =
        dense(3 * kSeq, 21, [&](auto t, auto j) { return x.read()(t, j) + table.read()(t % kSeq, j); });
    operators().position_forward(x, table, kSeq);
    expect_close(x, expected, tolerance(storage.type), describe(storage));
    const Guarded dtable = random_matrix(kSeq + 2, 21, DType::fp32);
    Dense sums = dtable.read();
    for (std::int64_t t = 0; t < 3 * kSeq; ++t) {
      for (std::int64_t j = 0; j < 21; ++j) sums(t % kSeq, j) += x.read()(t, j);
    }
    operators().position_backward(x, dtable, kSeq);
    expect_close(dtable, sums, tolerance(DType::fp32), describe(storage));
  }
}

TEST(Embedding, RowsOfGivenTokensAreAdded) {
  for (const Storage& storage : storages()) {
    constexpr std::int64_t kTokens = 9;
    const Guarded x = random_matrix(kTokens, 21, storage.type, storage.gap);
    const Guarded table = random_matrix(4, 21, storage.type);
    const Guarded tokens(1, kTokens, DType::int32);
    auto* ids = tokens.matrix().as<std::int32_t>();
    for (std::int64_t t = 0; t < kTokens; ++t) ids[t] = static_cast<std::int32_t>(random_integer(0, 3));
    const Dense expected =
        dense(kTokens, 21, [&](auto t, auto j) { return x.read()(t, j) + table.read()(ids[t], j); });
    operators().embedding_add(tokens, table, x);
    expect_close(x, expected, tolerance(storage.type), describe(storage));
    EXPECT_THROW(operators().embedding_add(tokens, x, table), Error);
  }
}

/// The loss over a vocabulary whose columns are split into `shards`, each padded at its end to `width`
/// columns.
struct Sharded {
  std::vector<Guarded> logits;
  std::vector<std::int64_t> valid;
  std::int64_t width;
};

Sharded sharded(const Dense& logits, std::int64_t shards, const Storage& storage) {
  Sharded result;
  result.width = (logits.cols + shards - 1) / shards;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::int64_t first = shard * result.width;
    result.valid.push_back(std::max<std::int64_t>(0, std::min(result.width, logits.cols - first)));
    result.logits.emplace_back(logits.rows, result.width, storage.type, storage.gap);
    result.logits.back().write(dense(logits.rows, result.width, [&](auto i, auto j) {
      return j < result.valid.back() ? logits(i, first + j) : 1e30;  // padding must not be looked at
    }));
  }
  return result;
}

void check_cross_entropy(std::int64_t vocabulary, std::int64_t shards, const Storage& storage,
                         double spread) {
  const std::string what = fmt::format("{} vocabulary {} shards {}", describe(storage), vocabulary, shards);
  constexpr std::int64_t kTokens = 7;
  constexpr double kScale = 0.25;
  const Dense logits = random_matrix(kTokens, vocabulary, storage.type, 0, spread).read();
  Guarded targets = random_tokens(kTokens, vocabulary);
  Dense ids = targets.read();
  ids(0, 2) = -100;
  ids(0, 3) = static_cast<double>(vocabulary - 1);
  targets.write(ids);

  Sharded parts = sharded(logits, shards, storage);
  Guarded row_max(1, kTokens, DType::fp32);
  Guarded sums(2, kTokens, DType::fp32);
  Dense all_max = dense(1, kTokens, [](auto, auto) { return -1e300; });
  Dense all_sums(2, kTokens);
  for (std::int64_t s = 0; s < shards; ++s) {
    operators().cross_entropy_max(parts.logits[s], parts.valid[s], row_max);
    for (std::int64_t t = 0; t < kTokens; ++t) all_max(0, t) = std::max(all_max(0, t), row_max.read()(0, t));
  }
  row_max.write(all_max);
  for (std::int64_t s = 0; s < shards; ++s) {
    operators().cross_entropy_sums(parts.logits[s], parts.valid[s], s * parts.width, targets, row_max, sums);
    for (std::size_t i = 0; i < all_sums.values.size(); ++i) all_sums.values[i] += sums.read().values[i];
    EXPECT_EQ(sums.read()(1, 2), 0) << what << ": an ignored target has no logit";
  }
  sums.write(all_sums);

  double expected_loss = 0;
  Dense expected_gradient(kTokens, vocabulary);
  Dense terms(kTokens, vocabulary);  // the probability, off by the size of its exponent, and the one it loses
  for (std::int64_t t = 0; t < kTokens; ++t) {
    double total = 0;
    for (std::int64_t j = 0; j < vocabulary; ++j) total += std::exp(logits(t, j) - all_max(0, t));
    if (ids(0, t) == -100) continue;
    const auto target = static_cast<std::int64_t>(ids(0, t));
    expected_loss += std::log(total) - (logits(t, target) - all_max(0, t));
    for (std::int64_t j = 0; j < vocabulary; ++j) {
      const double exponent = logits(t, j) - all_max(0, t);
      const double probability = std::exp(exponent) / total;
      const double one = j == target ? 1 : 0;
      expected_gradient(t, j) = kScale * (probability - one);
      terms(t, j) = kScale * (probability * (1 - exponent) + one) + kUnderflow;
    }
  }
  for (std::int64_t s = 0; s < shards; ++s) {
    const double loss = value_of(operators().cross_entropy_gradient(
        parts.logits[s], parts.valid[s], s * parts.width, targets, row_max, sums, kScale));
    expect_within(loss, expected_loss, 1e-5 * (1 + expected_loss), what + " loss");
    const std::int64_t first = s * parts.width;
    const Dense found = parts.logits[s].read();
    Dense expected(kTokens, parts.width);
    Dense sizes(kTokens, parts.width);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < parts.width; ++j) {
        if (j < parts.valid[s]) {
          expected(t, j) = expected_gradient(t, first + j);
          sizes(t, j) = terms(t, first + j);
        }
        const bool zero = j >= parts.valid[s] || t == 2;
        EXPECT_TRUE(!zero || found(t, j) == 0) << what << " " << t << "," << j;
      }
    }
    expect_close(parts.logits[s], expected, tolerance(storage.type), what, sizes);
  }
}

TEST(CrossEntropy, WholeAndSharded) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t vocabulary : {1, 16, 50, 101}) {
      for (const std::int64_t shards : {1, 3}) {
        if (shards > vocabulary) continue;
        check_cross_entropy(vocabulary, shards, storage, 2);
      }
    }
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  check_cross_entropy(40, 2, {DType::fp32, 0}, 200);
}

/// Rows of few different logits, so that the largest occurs several times.
TEST(GreedyChoice, IsTheFirstLargest) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t valid : {1, 2, 8, 50, 1023, 1024, 1025, 5000}) {
      constexpr std::int64_t kTokens = 5;
      const std::string what = fmt::format("{} vocabulary {}", describe(storage), valid);
      Guarded logits(kTokens, valid + 3, storage.type, storage.gap);
      logits.write(dense(kTokens, valid + 3, [&](auto, auto j) {
        return j < valid ? static_cast<double>(random_integer(-9, 4))
                         : 1e30;  // padding must not be looked at
      }));
      const Guarded choice(3, kTokens, DType::fp32, 2);
      operators().greedy_choice(logits, valid, choice);
      const Dense rows = logits.read();
      const Dense found = choice.read();
      for (std::int64_t t = 0; t < kTokens; ++t) {
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < valid; ++j)
          if (rows(t, j) > rows(t, best)) best = j;
        double sum = 0;
        for (std::int64_t j = 0; j < valid; ++j) sum += std::exp(rows(t, j) - rows(t, best));
        EXPECT_EQ(found(0, t), rows(t, best)) << what;
        expect_within(found(1, t), sum, 1e-5 * sum, what + " sum");
        EXPECT_EQ(found(2, t), static_cast<double>(best)) << what;
      }
    }
  }
}

TEST(GreedyChoice, SaysWhatIsNoNumber) {
  for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
    for (const std::int64_t column : {0, 700, 2047}) {
      Guarded logits = random_matrix(2, 2048, DType::fp32);
      Dense values = logits.read();
      values(1, column) = bad;
      logits.write(values);
      const Guarded choice(3, 2, DType::fp32);
      operators().greedy_choice(logits, 2048, choice);
      EXPECT_TRUE(std::isfinite(choice.read()(1, 0)));
      EXPECT_FALSE(std::isfinite(choice.read()(1, 1))) << bad << " in column " << column;
    }
  }
  const Guarded none(1, 4, DType::fp32);
  const Guarded choice(3, 1, DType::fp32);
  operators().greedy_choice(none, 0, choice);  // a shard of padding
  EXPECT_EQ(choice.read()(1, 0), 0);
  EXPECT_THROW(operators().greedy_choice(none, 5, choice), Error);
}

TEST(CrossEntropy, DisagreementsThrow) {
  const Guarded logits(3, 8, DType::fp32);
  const Guarded row_max(1, 3, DType::fp32);
  const Guarded sums(2, 3, DType::fp32);
  const Guarded targets(1, 3, DType::int32);
  EXPECT_THROW(operators().cross_entropy_max(logits, 9, row_max), Error);
  EXPECT_THROW(operators().cross_entropy_sums(logits, 8, 0, row_max, row_max, sums), Error);
  EXPECT_THROW(operators().cross_entropy_gradient(logits, 8, 0, targets, row_max, row_max, 1), Error);
}

}  // namespace
}  // namespace plumbline::test
