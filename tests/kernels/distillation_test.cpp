// The loss of distillation, whole and split into shards of the vocabulary, against double precision.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr std::int64_t kTokens = 7;
constexpr std::int64_t kIgnored = 2;  // the token without a target

/// Columns of one shard, padded at the end with values that must not be read.
struct Shard {
  std::int64_t first;
  std::int64_t valid;
  Guarded student, teacher;
};

Guarded columns_of(const Dense& all, std::int64_t first, std::int64_t valid, std::int64_t width,
                   const Storage& storage) {
  Guarded columns(all.rows, width, storage.type, storage.gap);
  columns.write(dense(all.rows, width, [&](auto i, auto j) { return j < valid ? all(i, first + j) : 1e30; }));
  return columns;
}

std::vector<Shard> shards_of(const Dense& student, const Dense& teacher, std::int64_t shards,
                             const Storage& storage, DType teacher_type) {
  const std::int64_t width = (student.cols + shards - 1) / shards;
  std::vector<Shard> parts;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::int64_t first = shard * width;
    const std::int64_t valid = std::max<std::int64_t>(0, std::min(width, student.cols - first));
    parts.push_back({first, valid, columns_of(student, first, valid, width, storage),
                     columns_of(teacher, first, valid, width, {teacher_type, storage.gap})});
  }
  return parts;
}

/// Row `t` of softmax(x / temperature).
struct Probabilities {
  std::vector<double> values;
  std::vector<double> exponents;  // parts of their logarithms: the distance to the top and log Σ
};

Probabilities softmax(const Dense& x, std::int64_t t, double temperature) {
  double top = -1e300;
  for (std::int64_t j = 0; j < x.cols; ++j) top = std::max(top, x(t, j));
  Probabilities row;
  double total = 0;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    row.exponents.push_back((top - x(t, j)) / temperature);
    row.values.push_back(std::exp(-row.exponents.back()));
    total += row.values.back();
  }
  for (double& value : row.values) value /= total;
  for (double& exponent : row.exponents) exponent += std::log(total);
  return row;
}

struct Expected {
  double loss = 0;
  double loss_terms = 0;  // as below
  Dense gradient;
  Dense terms;  // largest change of the gradient by rounding to fp32
};

/// A logarithm of a probability is off by as many roundings as its exponent is large, and so is the
/// probability relative to itself. The divergence is a sum of such errors, each multiplied by its factor.
Expected reference(const Dense& student, const Dense& teacher, const Dense& targets, const Distillation& loss,
                   double scale) {
  const Dense empty(kTokens, student.cols);
  Expected result{0, 0, empty, empty};
  for (std::int64_t t = 0; t < kTokens; ++t) {
    if (targets(0, t) == -100) continue;
    const auto target = static_cast<std::size_t>(targets(0, t));
    const auto [s, s_exponent] = softmax(student, t, loss.temperature);
    const auto [p, p_exponent] = softmax(teacher, t, loss.temperature);
    const auto [plain, plain_exponent] = softmax(student, t, 1);
    const auto log_ratio = [&, &s = s, &p = p](std::size_t j) { return std::log(s[j] / p[j]); };
    double kl = 0;
    double kl_terms = 0;
    for (std::size_t j = 0; j < s.size(); ++j) {
      kl += loss.reverse ? s[j] * log_ratio(j) : -p[j] * log_ratio(j);
      const double size = std::abs(log_ratio(j));
      kl_terms += loss.reverse ? s[j] * ((1 + s_exponent[j]) * (1 + size) + p_exponent[j])
                               : p[j] * ((1 + p_exponent[j]) * (1 + size) + s_exponent[j]);
    }
    result.loss += (1 - loss.lm_weight) * kl - loss.lm_weight * std::log(plain[target]);
    result.loss_terms += (1 - loss.lm_weight) * kl_terms + loss.lm_weight * (1 + plain_exponent[target]);
    for (std::size_t j = 0; j < s.size(); ++j) {
      const auto column = static_cast<std::int64_t>(j);
      const double ratio = log_ratio(j);
      const double one = j == target ? 1 : 0;
      const double divergence = loss.reverse ? s[j] * (ratio - kl) : s[j] - p[j];
      const double off =
          loss.reverse
              ? s[j] * ((1 + s_exponent[j]) * (1 + std::abs(ratio) + std::abs(kl)) + p_exponent[j] + kl_terms)
              : s[j] * (1 + s_exponent[j]) + p[j] * (1 + p_exponent[j]);
      const double kl_factor = scale * (1 - loss.lm_weight) / loss.temperature;
      result.gradient(t, column) = kl_factor * divergence + scale * loss.lm_weight * (plain[j] - one);
      result.terms(t, column) =
          kl_factor * off + scale * loss.lm_weight * (plain[j] * (1 + plain_exponent[j]) + one) + kUnderflow;
    }
  }
  return result;
}

/// Statistics after the all-reduces between the steps.
struct Statistics {
  Guarded row_max{2, kTokens, DType::fp32};
  Guarded sums{4, kTokens, DType::fp32};
  Guarded divergence{1, kTokens, DType::fp32};
};

void add(Dense& total, const Dense& part) {
  for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += part.values[i];
}

void take_statistics(const std::vector<Shard>& parts, const Guarded& targets, const Distillation& loss,
                     Statistics& all) {
  Dense maxima = dense(2, kTokens, [](auto, auto) { return -1e300; });
  for (const Shard& part : parts) {
    const Guarded found(2, kTokens, DType::fp32);
    operators().cross_entropy_max(part.student, part.valid, found.matrix().row_range(0, 1));
    operators().cross_entropy_max(part.teacher, part.valid, found.matrix().row_range(1, 1));
    const Dense here = found.read();
    for (std::size_t i = 0; i < maxima.values.size(); ++i) {
      maxima.values[i] = std::max(maxima.values[i], here.values[i]);
    }
  }
  all.row_max.write(maxima);
  Dense sums(4, kTokens);
  for (const Shard& part : parts) {
    const Guarded found(4, kTokens, DType::fp32);
    operators().distillation_sums(part.student, part.teacher, part.valid, part.first, targets,
                                  loss.temperature, all.row_max, found);
    EXPECT_TRUE(found.intact());
    add(sums, found.read());
  }
  all.sums.write(sums);
  Dense divergence(1, kTokens);
  for (const Shard& part : parts) {
    const Guarded found(1, kTokens, DType::fp32);
    operators().distillation_divergence(part.student, part.teacher, part.valid, loss, all.row_max, all.sums,
                                        found);
    EXPECT_TRUE(found.intact());
    add(divergence, found.read());
  }
  all.divergence.write(divergence);
}

void check(std::int64_t vocabulary, std::int64_t shards, const Storage& storage, DType teacher_type,
           const Distillation& loss, double spread) {
  const std::string what =
      fmt::format("{} teacher {} vocabulary {} shards {} temperature {} {} lm {}", describe(storage),
                  name_of(teacher_type), vocabulary, shards, loss.temperature,
                  loss.reverse ? "reverse" : "forward", loss.lm_weight);
  constexpr double kScale = 0.25;
  const Dense student = random_matrix(kTokens, vocabulary, storage.type, 0, spread).read();
  const Dense teacher = random_matrix(kTokens, vocabulary, teacher_type, 0, spread).read();
  Guarded targets(1, kTokens, DType::int32);
  Dense ids =
      dense(1, kTokens, [&](auto, auto) { return static_cast<double>(random_integer(0, vocabulary - 1)); });
  ids(0, kIgnored) = -100;
  ids(0, 3) = static_cast<double>(vocabulary - 1);
  targets.write(ids);
  const Expected expected = reference(student, teacher, ids, loss, kScale);

  const std::vector<Shard> parts = shards_of(student, teacher, shards, storage, teacher_type);
  Statistics all;
  take_statistics(parts, targets, loss, all);
  for (const Shard& part : parts) {
    const std::vector<std::uint8_t> before = part.teacher.bytes();
    const double total = value_of(operators().distillation_gradient(part.student, part.teacher, part.valid,
                                                                    part.first, targets, loss, all.row_max,
                                                                    all.sums, all.divergence, kScale));
    expect_within(total, expected.loss, std::sqrt(tolerance(DType::fp32)) * expected.loss_terms,
                  what + " loss");
    EXPECT_EQ(part.teacher.bytes(), before) << what << ": the teacher was written";
    const Dense found = part.student.read();
    const auto columns = [&](const Dense& whole) {
      return dense(kTokens, found.cols,
                   [&](auto t, auto j) { return j < part.valid ? whole(t, part.first + j) : 0; });
    };
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < found.cols; ++j) {
        EXPECT_TRUE((t != kIgnored && j < part.valid) || found(t, j) == 0) << what << " " << t << "," << j;
      }
    }
    expect_close(part.student, columns(expected.gradient), tolerance(storage.type), what,
                 columns(expected.terms));
  }
}

TEST(Distillation, WholeAndSharded) {
  const Distillation losses[] = {{1, false, 0}, {2.5, false, 0.3}, {0.7, true, 0}, {3, true, 0.6}};
  for (const Storage& storage : storages()) {
    for (const DType teacher : {storage.type, DType::fp32}) {
      for (const Distillation& loss : losses) {
        for (const std::int64_t vocabulary : {16, 50, 101}) {
          for (const std::int64_t shards : {1, 3}) check(vocabulary, shards, storage, teacher, loss, 2);
        }
      }
    }
  }
}

TEST(Distillation, LargeOutputsDoNotOverflow) {
  for (const bool reverse : {false, true}) {
    check(40, 2, {DType::fp32, 0}, DType::fp32, {2, reverse, 0.5}, 60);
  }
}

TEST(Distillation, EqualModelsHaveNoDivergence) {
  const Guarded student = random_matrix(kTokens, 37, DType::fp32);
  Guarded teacher(kTokens, 37, DType::fp32);
  teacher.write(student.read());
  Guarded targets(1, kTokens, DType::int32);
  targets.write(dense(1, kTokens, [](auto, auto) { return 5; }));
  std::vector<Shard> parts;
  const Distillation loss{2, false, 0};
  parts.push_back({0, 37, columns_of(student.read(), 0, 37, 37, {DType::fp32, 0}),
                   columns_of(student.read(), 0, 37, 37, {DType::fp32, 0})});
  Statistics all;
  take_statistics(parts, targets, loss, all);
  EXPECT_EQ(value_of(operators().distillation_gradient(parts[0].student, parts[0].teacher, 37, 0, targets,
                                                       loss, all.row_max, all.sums, all.divergence, 1)),
            0);
  for (const double entry : parts[0].student.read().values) EXPECT_EQ(entry, 0);
}

TEST(Distillation, InSeparatePasses) {
  constexpr double kTemperature = 2;
  constexpr double kScale = 0.25;
  for (const std::int64_t gap : {0, 3}) {
    for (const std::int64_t vocabulary : {1, 16, 37}) {
      const std::string what = fmt::format("gap {} vocabulary {}", gap, vocabulary);
      const std::int64_t width = vocabulary + 2;  // padding at the end
      const Dense student = random_matrix(kTokens, vocabulary, DType::fp32, 0, 3).read();
      const Dense teacher = random_matrix(kTokens, vocabulary, DType::fp32, 0, 3).read();
      Guarded targets(1, kTokens, DType::int32);
      Dense ids(1, kTokens);
      ids(0, kIgnored) = -100;
      targets.write(ids);
      const auto divided = [&](const Dense& x) {
        Guarded y(kTokens, width, DType::fp32, gap);
        y.write(dense(kTokens, width,
                      [&](auto t, auto j) { return j < vocabulary ? x(t, j) / kTemperature : 1e30; }));
        return y;
      };
      const auto make = [&] { return Guarded(kTokens, width, DType::fp32, gap); };
      const Guarded p = make();
      const Guarded log_s = make();
      const Guarded terms = make();
      const Guarded dx = make();
      operators().softmax(divided(teacher), vocabulary, false, p);
      operators().softmax(divided(student), vocabulary, true, log_s);
      const double sum = value_of(operators().divergence_terms(p, log_s, vocabulary, targets, terms));
      operators().log_softmax_backward(p, log_s, vocabulary, targets, -kScale / kTemperature, dx);
      const Expected expected = reference(student, teacher, ids, {kTemperature, false, 0}, kScale);
      expect_within(sum, expected.loss, std::sqrt(tolerance(DType::fp32)) * expected.loss_terms, what);
      const auto padded = [&](auto f) {
        return dense(kTokens, width, [&](auto t, auto j) { return j < vocabulary ? f(t, j) : 0; });
      };
      const double bound = tolerance(DType::fp32);
      expect_close(p, padded([&](auto t, auto j) { return softmax(teacher, t, kTemperature).values[j]; }),
                   bound, what);
      expect_close(log_s, padded([&](auto t, auto j) {
                     return std::log(softmax(student, t, kTemperature).values[j]);
                   }),
                   bound, what);
      EXPECT_TRUE(terms.intact()) << what;
      if (vocabulary == 1) continue;  // nothing to learn
      expect_close(dx, padded([&](auto t, auto j) { return expected.gradient(t, j); }), bound, what,
                   padded([&](auto t, auto j) { return expected.terms(t, j); }));
    }
  }
}

TEST(Distillation, DisagreementsThrow) {
  const Guarded student(3, 8, DType::fp32);
  const Guarded narrow(3, 7, DType::fp32);
  const Guarded row_max(2, 3, DType::fp32);
  const Guarded sums(4, 3, DType::fp32);
  const Guarded targets(1, 3, DType::int32);
  const Guarded divergence(1, 3, DType::fp32);
  EXPECT_THROW(operators().distillation_sums(student, narrow, 7, 0, targets, 1, row_max, sums), Error);
  EXPECT_THROW(operators().distillation_sums(student, student, 8, 0, targets, 0, row_max, sums), Error);
  EXPECT_THROW(operators().distillation_divergence(student, student, 9, {}, row_max, sums, divergence),
               Error);
  EXPECT_THROW(
      operators().distillation_gradient(student, student, 8, 0, divergence, {}, row_max, sums, divergence, 1),
      Error);
}

}  // namespace
}  // namespace plumbline::test
