// Dropout of the hidden state: dropped elements, bit for bit, and the sums with it against double arithmetic.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.hpp"
#include "kernels/dropout.hpp"
#include "tests/kernels/philox_reference.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kWidths[] = {1, 3, 4, 16, 37, 64, 70, 131};
constexpr std::int64_t kRows = 3;

Dense expected_mask(const Dropout& dropout, std::int64_t rows, std::int64_t cols) {
  return dense(rows, cols, [&](auto i, auto j) { return stays(dropout, i, j, 0) ? 1 : 0; });
}

void expect_equal(const Guarded& found, const Dense& expected, const std::string& what) {
  EXPECT_EQ(found.read().values, expected.values) << what;
  EXPECT_TRUE(found.intact()) << what << ": guard bytes were overwritten";
}

TEST(Dropout, KnownAnswersOfPhilox) {
  struct Case {
    std::array<std::uint32_t, 4> counter;
    std::array<std::uint32_t, 2> key;
    std::array<std::uint32_t, 4> expected;
  };
  // tests/kat_vectors of Random123, "philox4x32 10".
  const Case cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(philox_reference(c.counter, c.key), c.expected);
    const Dropout dropout{0.5, c.key[0], c.key[1], c.counter[2], c.counter[1]};
    const DropoutWords found = dropout_words(dropout, c.counter[0], 0, c.counter[3]);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found.word[i], c.expected[i]) << i;
  }
}

TEST(Dropout, MaskIsThatOfTheDefinition) {
  for (const double probability : {0.0, 1e-9, 0.1, 0.5, 0.999, std::nextafter(1.0, 0.0)}) {
    for (const std::int64_t width : kWidths) {
      for (const std::int64_t gap : {0, 3}) {
        const Dropout dropout = random_dropout(probability);
        const Guarded mask(kRows, width, DType::uint8, gap);
        operators().dropout_mask(dropout, mask);
        expect_equal(mask, expected_mask(dropout, kRows, width),
                     fmt::format("p {} width {} gap {}", probability, width, gap));
      }
    }
  }
}

TEST(Dropout, ThresholdIsExact) {
  EXPECT_EQ(dropout_threshold(1e-9), 4U);
  EXPECT_EQ(dropout_threshold(0.1), 429496729U);
  EXPECT_EQ(dropout_threshold(0.5), 1U << 31);
  EXPECT_EQ(dropout_threshold(std::nextafter(1.0, 0.0)), 0xffffffffU);
  // An element stays with a number as large as the threshold, and goes when the threshold is one more.
  Dropout dropout = random_dropout(0);
  dropout.first_row = 7;
  const auto words = philox_reference({0, 7, dropout.site, 0}, {dropout.seed, dropout.step});
  for (std::size_t j = 0; j < 4; ++j) {
    if (words[j] == 0xffffffffU) continue;  // never dropped
    for (const bool dropped : {false, true}) {
      dropout.probability = std::ldexp(words[j] + (dropped ? 1.0 : 0.0), -32);
      const Guarded mask(1, 4, DType::uint8);
      operators().dropout_mask(dropout, mask);
      EXPECT_EQ(mask.read()(0, static_cast<std::int64_t>(j)), dropped ? 0 : 1) << words[j];
    }
  }
}

TEST(Dropout, RateIsTheProbability) {
  // The same numbers in every run, so that nothing here happens by chance; independent numbers stay within
  // five standard deviations of a binomial distribution.
  for (const double probability : {0.1, 0.5, 0.9}) {
    const Guarded mask(64, 1024, DType::uint8);
    operators().dropout_mask({probability, 1234, 1, 4, 0}, mask);
    const Dense found = mask.read();
    double dropped = 0;
    double both = 0;  // an element and its neighbour
    for (std::int64_t i = 0; i < found.rows; ++i) {
      for (std::int64_t j = 0; j < found.cols; ++j) {
        dropped += 1 - found(i, j);
        if (j % 2 == 1) both += (1 - found(i, j)) * (1 - found(i, j - 1));
      }
    }
    const auto bound = [](double n, double p) { return 5 * std::sqrt(n * p * (1 - p)); };
    const auto n = static_cast<double>(found.values.size());
    EXPECT_NEAR(dropped, n * probability, bound(n, probability)) << probability;
    EXPECT_NEAR(both, n / 2 * probability * probability, bound(n / 2, probability * probability))
        << probability;
  }
}

TEST(Dropout, RanksThatShareTheRowsDropTheSame) {
  constexpr std::int64_t kCols = 70;
  const Dropout dropout = random_dropout(0.4);
  const Dense whole = expected_mask(dropout, 12, kCols);
  for (const std::int64_t ranks : {2, 3, 4}) {
    const std::int64_t rows = 12 / ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Dropout part = dropout;
      part.first_row += rank * rows;
      const Guarded mask(rows, kCols, DType::uint8);
      operators().dropout_mask(part, mask);
      expect_equal(mask, dense(rows, kCols, [&](auto i, auto j) { return whole(rank * rows + i, j); }),
                   fmt::format("rank {} of {}", rank, ranks));
    }
  }
}

/// Half the distance between neighbours of this type next to `value`, at most.
double half_step(DType type, double value) {
  if (type == DType::fp16) return std::ldexp(std::max(std::fabs(value), std::ldexp(1, -14)), -11);
  return std::ldexp(std::fabs(value), type == DType::bf16 ? -8 : -24);
}

/// The operators against residual + (x + bias)·mask/(1 - p). Three roundings to fp32 after the one of the
/// factor, each of a number no larger than `terms`; eight leaves room for another order.
void expect_rounded(const Guarded& found, const Dense& expected, const Dense& terms, DType type,
                    const std::string& what) {
  const Dense values = found.read();
  for (std::int64_t i = 0; i < values.rows; ++i) {
    for (std::int64_t j = 0; j < values.cols; ++j) {
      const double bound = half_step(type, expected(i, j)) + std::ldexp(8 * terms(i, j), -24);
      ASSERT_LE(std::fabs(values(i, j) - expected(i, j)), bound) << what << " at " << i << ", " << j;
    }
  }
  EXPECT_TRUE(found.intact()) << what << ": guard bytes were overwritten";
}

enum class Target { apart, over_x, over_residual };

void check_add(const Storage& storage, std::int64_t width, bool with_bias, bool with_residual,
               Target target) {
  const double p = std::uniform_real_distribution<double>(0, 0.9)(random_engine());
  const std::string what = fmt::format("{} width {} p {} bias {} residual {} target {}", describe(storage),
                                       width, p, with_bias, with_residual, static_cast<int>(target));
  const Guarded x = random_matrix(kRows, width, storage.type, storage.gap);
  const Guarded residual = random_matrix(kRows, width, storage.type, 2 * storage.gap);
  const Guarded bias = random_matrix(1, width, storage.type);
  const Guarded mask(kRows, width, DType::uint8, storage.gap);
  operators().dropout_mask(random_dropout(p), mask);
  const Dense from = x.read();
  const Dense stream = residual.read();
  const Dense bias_values = bias.read();
  const Dense stays = mask.read();
  const auto sum = [&](auto of) {
    return dense(kRows, width, [&](auto i, auto j) {
      const double dropped = of(from(i, j)) + (with_bias ? of(bias_values(0, j)) : 0);
      return (with_residual ? of(stream(i, j)) : 0) + dropped * stays(i, j) / (1 - p);
    });
  };
  const Dense expected = sum([](double value) { return value; });
  const Dense terms = sum([](double value) { return std::fabs(value); });
  const Guarded apart(kRows, width, storage.type, 3 * storage.gap);
  const Guarded& y = target == Target::apart ? apart : target == Target::over_x ? x : residual;
  operators().dropout_add(x, with_bias ? bias.matrix() : Matrix{},
                          with_residual ? residual.matrix() : Matrix{}, mask, p, y);
  expect_rounded(y, expected, terms, storage.type, what);
  expect_equal(mask, stays, what);
}

TEST(Dropout, AddsWhatIsLeft) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      for (const bool with_bias : {false, true}) {
        for (const Target target : {Target::apart, Target::over_x, Target::over_residual}) {
          check_add(storage, width, with_bias, true, target);
        }
        for (const Target target : {Target::apart, Target::over_x}) {
          check_add(storage, width, with_bias, false, target);
        }
      }
    }
  }
}

TEST(Dropout, Gradient) {
  for (const Storage& storage : storages()) {
    for (const std::int64_t width : kWidths) {
      const double p = std::uniform_real_distribution<double>(0, 0.9)(random_engine());
      const std::string what = fmt::format("{} width {} p {}", describe(storage), width, p);
      const Guarded dy = random_matrix(kRows, width, storage.type, storage.gap);
      const Guarded mask(kRows, width, DType::uint8, 2 * storage.gap);
      operators().dropout_mask(random_dropout(p), mask);
      const Dense gradient = dy.read();
      const Dense kept = mask.read();
      const auto expected =
          dense(kRows, width, [&](auto i, auto j) { return gradient(i, j) * kept(i, j) / (1 - p); });
      const Guarded dx(kRows, width, storage.type);
      operators().dropout_backward(dy, mask, p, dx);
      const Dense terms = dense(kRows, width, [&](auto i, auto j) { return std::fabs(expected(i, j)); });
      expect_rounded(dx, expected, terms, storage.type, what);
      operators().dropout_backward(dy, mask, p, dy);
      expect_rounded(dy, expected, terms, storage.type, what + " in place");
    }
  }
}

TEST(Dropout, ProbabilityZeroIsASum) {
  for (const Storage& storage : storages()) {
    const Guarded x = random_matrix(kRows, 37, storage.type, storage.gap);
    const Guarded residual = random_matrix(kRows, 37, storage.type);
    const Guarded mask(kRows, 37, DType::uint8);
    operators().dropout_mask(random_dropout(0), mask);
    const Guarded sum(kRows, 37, storage.type);
    const Guarded dropped(kRows, 37, storage.type);
    operators().add(residual, x, {}, sum);
    operators().dropout_add(x, {}, residual, mask, 0, dropped);
    EXPECT_EQ(sum.bytes(), dropped.bytes()) << describe(storage);
    operators().dropout_backward(x, mask, 0, dropped);
    EXPECT_EQ(dropped.read().values, x.read().values) << describe(storage);
  }
}

TEST(Dropout, NothingToDo) {
  const Guarded mask(0, 16, DType::uint8);
  const Guarded x(0, 16, DType::fp32);
  EXPECT_NO_THROW(operators().dropout_mask(random_dropout(0.5), mask));
  EXPECT_NO_THROW(operators().dropout_add(x, {}, x, mask, 0.5, x));
}

TEST(Dropout, MasksAreMovedAsTheyAre) {
  const Guarded mask(4, 6, DType::uint8);
  operators().dropout_mask(random_dropout(0.5), mask);
  std::uint8_t host[24];
  operators().download(mask, host);
  const Guarded back(4, 6, DType::uint8);
  operators().upload(host, back);
  EXPECT_EQ(back.bytes(), mask.bytes());
  const Guarded gapped(4, 6, DType::uint8, 5);
  operators().copy(mask, gapped);
  expect_equal(gapped, mask.read(), "copy");
}

TEST(Dropout, BadArgumentsThrowAndNothingIsWritten) {
  const Guarded x(2, 8, DType::fp32);
  const Guarded narrow(2, 7, DType::fp32);
  const Guarded half(2, 8, DType::bf16);
  const Guarded bias(1, 8, DType::fp32);
  const Guarded mask(2, 8, DType::uint8);
  const Guarded other(2, 7, DType::uint8);
  Operators& ops = operators();
  for (const double p :
       {1.0, 1.5, -0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(ops.dropout_mask({p, 1, 1, 0, 0}, mask), Error) << p;
    EXPECT_THROW(ops.dropout_add(x, {}, x, mask, p, x), Error) << p;
    EXPECT_THROW(ops.dropout_backward(x, mask, p, x), Error) << p;
  }
  EXPECT_THROW(ops.dropout_mask({}, x), Error);
  EXPECT_THROW(ops.dropout_add(x, {}, x, x, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_add(x, {}, x, other, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_add(x, {}, narrow, mask, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_add(x, x, {}, mask, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_add(x, {}, half, mask, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_add(half, bias, {}, mask, 0.5, half), Error);
  EXPECT_THROW(ops.dropout_backward(x, other, 0.5, x), Error);
  EXPECT_THROW(ops.dropout_backward(x, mask, 0.5, half), Error);
  EXPECT_EQ(x.bytes(), Guarded(2, 8, DType::fp32).bytes());
  EXPECT_EQ(mask.bytes(), Guarded(2, 8, DType::uint8).bytes());
}

TEST(Dropout, AMaskIsNoNumber) {
  const Guarded mask(8, 8, DType::uint8);
  const Guarded row(1, 8, DType::uint8);
  const Guarded x(8, 8, DType::fp32);
  const Guarded ids(1, 8, DType::int32);
  const Guarded rstd(1, 8, DType::fp32);
  Operators& ops = operators();
  EXPECT_THROW(ops.gemm({.a = mask, .b = mask, .c = x, .bias = {}}), Error);
  EXPECT_THROW(ops.rmsnorm_forward(mask, row, mask, rstd, 1e-5), Error);
  EXPECT_THROW(ops.gelu_forward(mask, mask), Error);
  EXPECT_THROW(ops.add(mask, mask, {}, mask), Error);
  EXPECT_THROW(ops.dropout_add(mask, {}, mask, mask, 0.5, mask), Error);
  EXPECT_THROW(ops.dropout_backward(mask, mask, 0.5, mask), Error);
  EXPECT_THROW(ops.bias_backward(mask, rstd), Error);
  EXPECT_THROW(ops.embedding_forward(ids, mask, 0, mask), Error);
  EXPECT_THROW(ops.copy(mask, x), Error);
  EXPECT_THROW(ops.copy(x, mask), Error);
  EXPECT_THROW(ops.scale(mask, 2), Error);
  EXPECT_THROW((void)ops.squared_norm(mask), Error);
  EXPECT_EQ(mask.bytes(), Guarded(8, 8, DType::uint8).bytes());
}

}  // namespace
}  // namespace plumbline::test
